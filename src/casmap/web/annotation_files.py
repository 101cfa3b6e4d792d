"""Annotation files of uploaded photos, in the formats of `casmap annotate`."""

import io
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, labels_of
from casmap.errors import UserError
from casmap.io.atomic import write_whole

FOLDER = "photos"  # where Label Studio finds the photos, below its document root
LONGEST = 200  # bytes of a name: file systems allow 255, and formats append to it
INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and surrogates
_private: set[str] = set()  # folders of requests in progress
MEDIA_TYPES = {  # by file suffix
    ".json": "application/json", ".csv": "text/csv", ".txt": "text/plain", ".xml": "application/xml",
    ".geojson": "application/geo+json", ".zip": "application/zip", "": "application/octet-stream",
}  # fmt: skip


def photo_names(uploaded: Iterable[str | None]) -> list[str]:
    """A safe and unique name for each uploaded photo.

    >>> photo_names(["cat.jpg", "../cat.jpg", "CAT\\0.jpg", "..", None])
    ['cat.jpg', '..-cat.jpg', 'CAT-2.jpg', 'photo', 'photo-2']
    """
    names: dict[str, str] = {}  # by case-folded name: some file systems ignore case
    for name in uploaded:
        safe = re.sub(r"[\\/:]", "-", INVISIBLE.sub("", name or "")).encode()[-LONGEST:].decode(errors="ignore")
        wanted = Path("photo" if safe.strip(". ") == "" else safe)
        numbered = (f"{wanted.stem}{f'-{n}' if n > 1 else ''}{wanted.suffix}" for n in count(1))
        free = next(one for one in numbered if one.casefold() not in names)
        names[free.casefold()] = free
    return list(names.values())


@contextmanager
def _private_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="casmap-") as folder:
        _private.add(folder)
        try:
            yield Path(folder)
        finally:
            _private.discard(folder)


def remove_private_folders() -> None:
    """Remove the folders of requests in progress, when the server ends without waiting for them."""
    for folder in list(_private):
        shutil.rmtree(folder, ignore_errors=True)


def write_annotations(
    photos: Sequence[tuple[Labelled, IO[bytes]]], *, format: str, rle: bool = False, ending: str = ""
) -> tuple[str, bytes]:
    """Write annotations of photos, each with its uploaded file, in a format; returns the name and content of a file.

    Several files are packed into a ZIP. ending: keep only the files whose names end with it.
    """
    with _private_folder() as private:
        out = private / "photos"
        labelled, inodes = [], {}
        for photo, content in photos:
            path = out / photo.name  # where the format writes: annotations then refer to the photo by its name alone
            content.seek(0)
            write_whole(path, content.read())
            labelled.append(replace(photo, file=path))
            inodes[path] = path.stat().st_ino
        val = 0 if ending else WriteOptions.val  # lists of splits are .txt files, too
        options = WriteOptions(rle, val=val, folder=FOLDER)
        FORMATS[format].write(labelled, labels_of(labelled), out, options)
        # A photo can have the name of one of the format's files, which has then replaced it.
        found = sorted(path for path in out.rglob("*") if path.is_file() and path.name.endswith(ending))
        files = [path for path in found if inodes.get(path) != path.stat().st_ino]
        if not files:
            raise UserError(f"The format {format} writes no file whose name ends with {ending!r}.")
        if len(files) == 1:
            return files[0].name, files[0].read_bytes()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.relative_to(out))
        return "annotations.zip", packed.getvalue()
