"""Photos with their objects: the input of every format's writer."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.io.atomic import whole_file
from casmap.io.names import file_name, unique_names

Polygon = list[tuple[float, float]]


@dataclass(frozen=True)
class Object:
    """A connected component of the binary mask, in the photo's pixels.

    box: the edges x0, y0, x1, y1. polygon: the outline, without holes. rle: the pixels with holes, as COCO run lengths.
    area: in pixels. score: the mean of the mask inside.
    """

    label: str
    box: tuple[int, int, int, int]
    polygon: Polygon
    rle: dict[str, Any]
    area: int
    score: float

    def mask(self) -> npt.NDArray[np.bool_]:
        """Return the object's pixels as a mask (H, W) of the photo."""
        height, width = self.rle["size"]
        from casmap.annotations.regions import rasterize  # slow to import

        return rasterize(self.rle, (width, height))


@dataclass(frozen=True)
class Labelled:
    """A photo and the objects in it.

    file: its path. name: its path relative to the folder of all photos, with forward slashes, as text (see
    `casmap.io.names.written`). width, height: upright.
    """

    file: Path
    name: str
    width: int
    height: int
    objects: tuple[Object, ...]


def labels_of(photos: Sequence[Labelled]) -> list[str]:
    """Return all classes of the objects, sorted."""
    return sorted({one.label for photo in photos for one in photo.objects})


def copy_photos(photos: Sequence[Labelled], folder: Path) -> dict[Path, tuple[str, str]]:
    """Copy photos into a folder under unique names that are text on one line; return the stem and name of each copy.

    Copies, not links: whoever edits a copy, or changes its permissions, must not change the user's own photo. File
    systems that can share blocks (Btrfs, XFS, APFS) do so.
    """
    stems = unique_names([photo.file for photo in photos])
    names = {file: (stem, stem + file_name(file.suffix)) for file, stem in stems.items()}
    for file, (_, name) in names.items():
        copy = whole_file(folder / name)
        with copy as temporary, open(file, "rb") as source, open(temporary, "wb") as target:
            _copy(source.fileno(), target.fileno())
    return names


def _copy(source: int, target: int) -> None:
    """Copy a file in the kernel, which may share its blocks, or through this process where the kernel cannot."""
    with suppress(OSError, AttributeError):  # not Linux, or two file systems
        while os.copy_file_range(source, target, 2**30):
            pass
    while part := memoryview(os.read(source, 2**20)):  # from where the kernel stopped
        while part:
            part = part[os.write(target, part) :]
