"""Pictures of maps side by side: a block for each mapping, a column for each photo, a row for each view of it."""

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from casmap.inference.saliency_map import SaliencyMap
from casmap.io.images import Image

SHOWN = 7  # photos in a group, as in the paper
ROWS = ("photo", "masked-in", "masked-out", "inpainted")
WITH_OVERLAY = ("photo", "overlay", "masked-in", "masked-out", "inpainted")
SIDE, GAP = 112, 16  # of a picture, and between mappings


def side_by_side(groups: Sequence[Sequence[SaliencyMap]], rows: Sequence[str] = ROWS, side: int = SIDE) -> Image:
    """A block of pictures for each mapping, white between them."""
    blocks = [block(maps, rows, side) for maps in groups]
    gap = np.full((len(blocks[0]), GAP, 3), 255, np.uint8)
    return np.hstack([part for each in blocks for part in (gap, each)][1:])


def block(maps: Sequence[SaliencyMap], rows: Sequence[str] = ROWS, side: int = SIDE) -> Image:
    """A column for each photo, a row for each view of it.

    >>> found = SaliencyMap(np.zeros((20, 30, 3), np.uint8), np.eye(20, 30))
    >>> block([found] * 7).shape
    (448, 784, 3)
    """
    return np.vstack([np.hstack([square(view(found, row), side) for found in maps]) for row in rows])


def view(found: SaliencyMap, name: str) -> Image:
    """One of a map's pictures by name."""
    return found.photo if name == "photo" else found.view(name)


def square(image: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.uint8]:
    """The picture's central square, in a white frame."""
    shorter = min(image.shape[:2])
    top, left = (image.shape[0] - shorter) // 2, (image.shape[1] - shorter) // 2
    framed = cv2.resize(
        image[top : top + shorter, left : left + shorter], (side - 4, side - 4), interpolation=cv2.INTER_AREA
    )
    return np.pad(framed, ((2, 2), (2, 2), (0, 0)), constant_values=255)
