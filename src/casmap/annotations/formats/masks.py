"""Masks: a PNG for each photo, named like the photo: 0 background, 255 object, 128 not counted."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import open_mask, rasterize
from casmap.annotations.types import NO_RECORD, Annotations, PhotoRecord
from casmap.errors import UserError, option
from casmap.io.atomic import write_whole
from casmap.io.images import encode_png
from casmap.io.names import read_name
from casmap.io.reading import refuse_link

FOLDER = "masks"


def recognises(path: Path) -> bool:
    """Return whether a path is a folder named masks or contains one; other folders may contain photos."""
    return path.is_dir() and (path.name == FOLDER or (path / FOLDER).is_dir())


def read_masks(folder: Path) -> Annotations:
    """Read a folder of masks; each is opened on demand."""

    def of(name: str) -> PhotoRecord:
        file = (folder / name).with_suffix(".png")
        return PhotoRecord(mask=lambda objects, size: open_mask(file, folder)) if file.exists() else NO_RECORD

    return Annotations("masks from a folder", of)


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write masks/, with 255 inside objects."""
    paths = [(out / FOLDER / read_name(photo.name)).with_suffix(".png") for photo in photos]
    if shared := [path for path, uses in Counter(paths).items() if uses > 1]:
        raise UserError(
            f"Several photos have the same mask file {shared[0]}: rename them, or choose another {option('format')}."
        )
    for photo, path in zip(photos, paths, strict=True):
        mask = np.zeros((photo.height, photo.width), np.uint8)
        for one in photo.objects:
            mask[rasterize(one.rle, (photo.width, photo.height))] = 255
        write_whole(path, encode_png(mask))
    return out / FOLDER


def _inside(folder: Path) -> Path:
    refuse_link(folder / FOLDER, folder)
    return folder / FOLDER


FORMATS.register("masks")(
    Format(recognises, lambda path, *_: read_masks(path if path.name == FOLDER else _inside(path)), write)
)
