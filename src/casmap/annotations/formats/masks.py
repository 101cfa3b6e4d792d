"""A picture for each photo, named as the photo with .png: 0 background, 255 object, 128 not counted."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import open_mask, rasterize
from casmap.annotations.types import NO_RECORD, Annotations, PhotoRecord
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.images import encode_png

FOLDER = "masks"


def recognises(path: Path) -> bool:
    """A folder that is called masks, or has one: other folders of pictures may hold photos."""
    return path.is_dir() and (path.name == FOLDER or (path / FOLDER).is_dir())


def read_masks(folder: Path) -> Annotations:
    """A folder of masks; each is opened when its photo is looked at."""

    def of(name: str) -> PhotoRecord:
        picture = (folder / name).with_suffix(".png")
        return PhotoRecord(mask=lambda objects, size: open_mask(picture)) if picture.exists() else NO_RECORD

    return Annotations("masks from a folder", of)


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write masks/, with 255 where an object is."""
    paths = [(out / FOLDER / photo.name).with_suffix(".png") for photo in photos]
    if twice := [path for path, uses in Counter(paths).items() if uses > 1]:
        raise UserError(f"Several photos would have the mask {twice[0]}: rename them, or choose another --format.")
    for photo, path in zip(photos, paths, strict=True):
        mask = np.zeros((photo.height, photo.width), np.uint8)
        for one in photo.objects:
            mask[rasterize(one.rle, (photo.width, photo.height))] = 255
        write_whole(path, encode_png(mask))
    return out / FOLDER


FORMATS.register("masks")(
    Format(recognises, lambda path, *_: read_masks(path if path.name == FOLDER else path / FOLDER), write)
)
