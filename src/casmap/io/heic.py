"""Open HEIC and HEIF files, as iPhones write them.

Needs pillow-heif, the extra `heic`.
"""

import io
from pathlib import Path

import PIL.Image

SUFFIXES = (".heic", ".heif")
# The brands of ISO/IEC 23008-12 for images coded with HEVC. A file of the general brands mif1 and msf1 is one of
# them if it lists one of these as compatible; otherwise it can be AVIF, which Pillow opens itself.
BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")


def is_heic(source: Path | io.BytesIO) -> bool:
    """Return whether a file, or its content, is HEIC: by the brands in its first bytes, whatever its name.

    >>> is_heic(io.BytesIO(bytes(4) + b"ftypheic")), is_heic(io.BytesIO(bytes(4) + b"ftypavif")), is_heic(Path("none"))
    (True, False, False)
    """
    if isinstance(source, io.BytesIO):
        head = source.getvalue()[:64]
    elif source.is_file():
        with open(source, "rb") as file:
            head = file.read(64)
    else:
        return False
    if head[4:8] != b"ftyp":
        return False
    listed = head[16 : int.from_bytes(head[:4])]
    compatible = {listed[at : at + 4] for at in range(0, len(listed), 4)}
    return head[8:12] in BRANDS or (head[8:12] in (b"mif1", b"msf1") and not compatible.isdisjoint(BRANDS))


def open_heic(source: Path | io.BytesIO) -> PIL.Image.Image:
    """Open a file lazily, upright; raise ModuleNotFoundError without pillow-heif."""
    from pillow_heif import register_heif_opener

    register_heif_opener()
    return PIL.Image.open(source, formats=("HEIF",))
