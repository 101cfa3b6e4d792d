"""Photos with their objects: the input of every format's writer."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.io.atomic import whole_file
from casmap.io.names import unique_names

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

    file: its path. name: its path relative to the folder of all photos, with forward slashes. width, height: upright.
    """

    file: Path
    name: str
    width: int
    height: int
    objects: tuple[Object, ...]


def labels_of(photos: Sequence[Labelled]) -> list[str]:
    """Return all classes of the objects, sorted."""
    return sorted({one.label for photo in photos for one in photo.objects})


def link_photos(photos: Sequence[Labelled], folder: Path) -> dict[Path, str]:
    """Hard-link photos into a folder under unique names, or copy them; return the stem of each new file."""
    names = unique_names([photo.file for photo in photos])
    for file, stem in names.items():
        with whole_file(folder / f"{stem}{file.suffix}") as temporary:
            temporary.unlink()
            try:
                os.link(file.resolve(), temporary)
            except OSError:  # another disk, or a file system without hard links
                temporary.write_bytes(file.read_bytes())
    return names
