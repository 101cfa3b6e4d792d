"""A photo with its objects: what every format of annotations is written from."""

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
    """A connected part of the binary mask, in the photo's pixels.

    box: x0, y0, x1, y1 as edges. polygon: its outline, without holes. rle: its pixels, holes too, as COCO writes them.
    area: in pixels. score: the mean of the mask inside.
    """

    label: str
    box: tuple[int, int, int, int]
    polygon: Polygon
    rle: dict[str, Any]
    area: int
    score: float

    def mask(self) -> npt.NDArray[np.bool_]:
        """Its pixels (H, W) in the photo."""
        height, width = self.rle["size"]
        from casmap.annotations.regions import rasterize  # readers' code, which a first map need not wait for

        return rasterize(self.rle, (width, height))


@dataclass(frozen=True)
class Labelled:
    """A photo and the objects in it.

    file: where it is. name: its path below the folder of all photos, with forward slashes. width, height: upright.
    """

    file: Path
    name: str
    width: int
    height: int
    objects: tuple[Object, ...]


def labels_of(photos: Sequence[Labelled]) -> list[str]:
    """All classes in use, sorted."""
    return sorted({one.label for photo in photos for one in photo.objects})


def place(photos: Sequence[Labelled], folder: Path) -> dict[Path, str]:
    """Put photos where a tool looks for them, a second name for the same bytes or a copy; return the stem of each."""
    names = unique_names([photo.file for photo in photos])
    for file, stem in names.items():
        with whole_file(folder / f"{stem}{file.suffix}") as aside:
            aside.unlink()
            try:
                os.link(file.resolve(), aside)
            except OSError:  # another disk, or one that knows no links
                aside.write_bytes(file.read_bytes())
    return names
