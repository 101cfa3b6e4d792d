"""Decode photos of all formats to upright RGB images of Pillow, and say why one cannot be decoded.

The processes that open photos import this module, but neither NumPy nor OpenCV, which would take most of their start.
"""

import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import PIL.Image
import PIL.ImageOps

from casmap.errors import InvalidImage, TooLarge, UnreadableImage
from casmap.install_hint import install_hint
from casmap.io import dicom, heic
from casmap.io.size_limits import MAX_PIXELS, ExceedsLimit, check_size, too_many

if TYPE_CHECKING:
    from casmap.io.arrays import Window

# A list, because not all of Pillow's formats are safe to open: for EPS it runs Ghostscript.
FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"), "PNG": (".png", ".apng"), "GIF": (".gif",), "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"), "TIFF": (".tif", ".tiff"), "WEBP": (".webp",),
    "JPEG2000": (".jp2", ".j2k"), "AVIF": (".avif",),
}  # fmt: skip
ACCEPTED = "an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or a tensor (3, H, W), with values in 0..1 or 0..255"
EXTRA_FORMATS = {"heic": ("HEIC", "pillow-heif"), "dicom": ("DICOM", "pydicom")}  # by extra: format and package
HEIC_SUFFIXES = heic.SUFFIXES if find_spec("pillow_heif") else ()  # otherwise unsupported, as raw files are
IMAGE_SUFFIXES = frozenset((dicom.SUFFIX, *HEIC_SUFFIXES, *chain.from_iterable(FORMATS.values())))
ORIENTATION, SWAPPED = 0x0112, (5, 6, 7, 8)  # an EXIF tag, and its values that exchange width and height


class NotAnImage(TypeError):  # noqa: N818 (named like the classes of casmap.errors)
    """A source of a type that cannot hold a photo."""


class NoContent(ValueError):  # noqa: N818 (likewise)
    """An empty file, or a URL instead of a file; the text completes the sentence "FILE is ..."."""


class Decoded(NamedTuple):
    """An upright RGB image, possibly decoded at a fraction of its size, and the full width and height of the photo."""

    image: PIL.Image.Image
    width: int
    height: int


def decode(
    source: Any, *, window: "Window | None" = None, least: int | None = None, max_pixels: int = MAX_PIXELS
) -> Decoded:
    """Decode a photo: a path, the bytes of a file, an open binary file or a Pillow image. Any exception is possible.

    >>> decode(b"P5 3 2 255 ......").image.size
    (3, 2)
    """
    if isinstance(source, PIL.Image.Image):
        return _upright_rgb(source, max_pixels)
    file = _seekable(source)
    if dicom.is_dicom(file):
        return _upright_rgb(PIL.Image.fromarray(dicom.open_dicom(file, max_pixels, window)), max_pixels)
    with _open_lazily(file) as image:
        return _upright_rgb(image, max_pixels, least)


@contextlib.contextmanager
def errors_of(name: str, in_memory: bool = False) -> Iterator[None]:
    """Turn whatever decoding a photo raises into UnreadableImage, with its name and the reason.

    in_memory: the photo was an array, which is InvalidImage.

    >>> with errors_of("cat.jpg"):
    ...     decode(b"")
    Traceback (most recent call last):
    casmap.errors.UnreadableImage: cat.jpg is empty: 0 bytes.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # MAX_PIXELS decides, not a warning
            yield
    except Exception as error:  # for damaged files, decoders raise OSError, SyntaxError, struct.error and others
        invalid = in_memory or isinstance(error, NotAnImage)
        large = isinstance(error, ExceedsLimit | PIL.Image.DecompressionBombError)
        kind = InvalidImage if invalid else TooLarge if large else UnreadableImage
        raise kind(f"{name} {_reason(error, invalid)}.") from error


def image_size(source: Path | bytes) -> tuple[int, int] | None:
    """Return width and height of the photo as `decode` returns it, from the file's header; None if it cannot.

    >>> image_size(Path("missing.jpg")), image_size(b"P5 3 2 255 ......")
    (None, (3, 2))
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            file = _seekable(source)
            if dicom.is_dicom(file):
                width, height = dicom.dicom_size(file)
            else:
                with _open_lazily(file) as image:
                    width, height = image.size
                    with contextlib.suppress(Exception):  # damaged EXIF data rotate nothing
                        width, height = (height, width) if image.getexif().get(ORIENTATION) in SWAPPED else image.size
            check_size(width, height, MAX_PIXELS)
            return (width, height) if width * height else None
    except Exception:
        return None


def is_url(source: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL, even if `Path` has removed one of its slashes.

    >>> is_url("https://example.com/cat.jpg"), is_url(Path("http://example.com")), is_url("photos/cat.jpg")
    (True, True, False)
    """
    return re.match("(https?|ftp|s3|gs):/", os.fspath(source), re.IGNORECASE) is not None


def _seekable(source: Any) -> Path | io.BytesIO:
    """Return a regular file, or the content of one in memory: at a pipe, Pillow would wait forever."""
    if isinstance(source, bytes | bytearray | memoryview) or hasattr(source, "read"):
        content = source.read() if hasattr(source, "read") else bytes(source)
        if not isinstance(content, bytes):
            raise NotAnImage("it is a text file: open it in binary mode")
        if not content:
            raise NoContent("empty: 0 bytes")
        return io.BytesIO(content)
    if not isinstance(source, str | os.PathLike):
        raise NotAnImage(f"it is of type {type(source).__name__}")
    if is_url(source):
        raise NoContent("a URL: download the file first")
    path = Path(source)
    if path.exists() and not path.is_file():
        raise IsADirectoryError(path)
    if path.exists() and path.stat().st_size == 0:
        raise NoContent("empty: 0 bytes")
    return path


def _open_lazily(file: Path | io.BytesIO) -> PIL.Image.Image:
    """Read the header of a file that is not DICOM; the pixels are decoded later."""
    return heic.open_heic(file) if heic.is_heic(file) else PIL.Image.open(file, formats=tuple(FORMATS))


def _upright_rgb(image: PIL.Image.Image, max_pixels: int, least: int | None = None) -> Decoded:
    """Check the size in the header; then decode a Pillow image, rotate it and convert it to RGB."""
    width, height = image.size
    if width * height == 0:
        raise ValueError("it has no pixels")
    check_size(width, height, max_pixels)
    with contextlib.suppress(Exception):
        width, height = (height, width) if image.getexif().get(ORIENTATION) in SWAPPED else image.size
    if least is not None and image.format == "JPEG":  # for HEIC, pillow-heif would use the embedded thumbnail
        image.draft(None, (least, least))
    image.load()  # damaged pixels raise here; damaged EXIF data are ignored below
    with contextlib.suppress(Exception):
        image = PIL.ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        import numpy as np

        from casmap.io.arrays import stretch_to_uint8

        image = PIL.Image.fromarray(stretch_to_uint8(np.asarray(image)))
    elif image.has_transparency_data:
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return Decoded(image.convert("RGB"), width, height)


def _reason(error: Exception, invalid: bool) -> str:
    """Return the part of the error message that follows the photo's name."""
    reasons = {
        NoContent: f"is {error}",
        FileNotFoundError: "does not exist",
        IsADirectoryError: "is a folder or a device, not an image file",
        PermissionError: "cannot be read: permission denied",
        PIL.UnidentifiedImageError: f"is not an image in a supported format ({', '.join(FORMATS)})",
        PIL.Image.DecompressionBombError: f"has {too_many(MAX_PIXELS)}",
        ExceedsLimit: f"has {error}",
        MemoryError: "needs more memory than a photo may use",
    }
    if isinstance(error, ModuleNotFoundError):
        extra = "heic" if "heif" in str(error.name) else "dicom"
        kind, package = EXTRA_FORMATS[extra]
        return f"is a {kind} file, which needs {package}: {install_hint(extra)}"
    for error_type, text in reasons.items():
        if isinstance(error, error_type):
            return text
    reason = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
    if invalid:
        return f"cannot be used: {reason}; a photo is a path, bytes, an open binary file, a Pillow image, {ACCEPTED}"
    return f"cannot be opened: {reason or type(error).__name__}"
