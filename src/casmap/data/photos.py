"""The one shape in which every data set is seen: numbered photos, their classes, and what is known about them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Annotation:
    """What is known of one photo beside its class, in its own pixels; only evaluation looks at it.

    boxes: (n, 4) float x0, y0, x1, y1 of the objects of the photo's class, as edges: x1 - x0 is the width.
    mask: (H, W) uint8, 0 background, 255 object, 128 not counted; or None.
    parts: (P, H, W) bool, the visible pixels of each part that is sufficient to tell the class; or None.
    """

    boxes: npt.NDArray[np.float64]
    mask: npt.NDArray[np.uint8] | None = None
    parts: npt.NDArray[np.bool_] | None = None


class PhotoSet(Protocol):
    """Photos with class labels, and annotations where there are any."""

    classes: list[str]
    names: list[str]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int: ...

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index`: (H, W, 3) RGB.

        least: where it is to be shrunk anyway, it may come smaller, its shorter side no less than this.
        """
        ...

    def annotation(self, index: int) -> Annotation | None:
        """What is known of photo number `index`, or None."""
        ...
