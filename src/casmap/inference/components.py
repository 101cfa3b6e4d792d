"""Binary masks, by a fixed threshold or as the paper defines them, their connected components, and boxes."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.errors import UserError, option

Mask = npt.NDArray[np.float32]
Binary = npt.NDArray[np.bool_]
Box = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels; x1 and y1 are exclusive: x1 - x0 is the width

LARGE, MOST_OUTLINES = 2**17, 1000  # pixels of a mask whose outlines are tried first; more outlines are slower
FIXED = 0.5  # the default threshold
FLAT = 1 / 512  # half a grey level: a mask whose values differ by less is flat


@dataclass(frozen=True)
class Threshold:
    """Which pixels the binary mask keeps: m >= fixed (default 0.5), or, if alpha is given, m >= alpha * mean(m).

    >>> Threshold().binary([[0.1, 0.2], [0.3, 1.0]]).tolist()
    [[False, False], [False, True]]
    >>> Threshold(alpha=0.5).binary([[0.1, 0.2], [0.3, 1.0]]).tolist()
    [[False, True], [True, True]]
    """

    alpha: float | None = None
    fixed: float | None = None

    def __post_init__(self) -> None:
        if self.alpha is not None and self.fixed is not None:
            raise UserError(f"{option('alpha')} and {option('threshold')} exclude each other: give only one of them.")
        if self.alpha is None and self.fixed is None:
            object.__setattr__(self, "fixed", FIXED)
        if self.fixed is not None and not 0 <= self.fixed <= 1:
            raise UserError(f"{option('threshold')} must be in 0..1, not {self.fixed}.")

    def binary(self, mask: npt.ArrayLike) -> Binary:
        """The binary masks of masks (..., H, W)."""
        if self.fixed is None:
            return binary_mask(mask, self.alpha or 0.0)
        return np.asarray(np.asarray(mask, np.float32) >= self.fixed)

    def level(self, mask: Mask) -> float:
        """The smallest value of a mask (H, W) that is kept.

        >>> Threshold(alpha=0.5).level(np.array([[0.25, 0.75]], np.float32))
        0.25
        """
        if self.fixed is not None:
            return self.fixed
        return (self.alpha or 0.0) * float(mask.mean(dtype=np.float64))

    def box(self, mask: Mask) -> Box | None:
        """The box around the largest component of a mask (H, W); None for a flat mask, or if no pixel is kept.

        >>> mask = np.array([[0.0, 0.4, 0.6]], np.float32)
        >>> Threshold().box(mask), Threshold(fixed=0.8).box(mask)
        ((2, 0, 3, 1), None)
        """
        return None if is_flat(mask) else largest_box(self.binary(mask))


PAPER = Threshold(alpha=1.0)


def binary_mask(mask: npt.ArrayLike, alpha: float = 1.0) -> Binary:
    """Discretize masks (..., H, W) as the paper does: b = 1 where m >= alpha * mean(m), with the mean of each mask.

    With alpha <= 1 the binary mask is never empty. The binary mask of a constant mask is full.

    >>> binary_mask([[0.1, 0.2], [0.3, 1.0]]).tolist()
    [[False, False], [False, True]]
    """
    # The mean of equal float32 numbers is exact in float64. A rounded mean could empty a constant mask.
    mask = np.asarray(mask, np.float32)
    threshold = alpha * mask.mean((-2, -1), dtype=np.float64, keepdims=True)
    return np.asarray(mask >= threshold)


def is_flat(mask: Mask) -> bool:
    """Whether a mask (H, W) is constant to within half a grey level. A flat mask marks no object.

    >>> is_flat(np.ones((2, 2), np.float32)), is_flat(np.eye(2, dtype=np.float32))
    (True, False)
    """
    low, high, _, _ = cv2.minMaxLoc(np.asarray(mask, np.float32))
    return bool(high - low < FLAT)


@dataclass(frozen=True, eq=False)
class Components:
    """The 8-connected components of a binary mask.

    numbers: (H, W), 0 for the background and n + 1 for component n. boxes: (k, 4). areas: (k,), in pixels. largest: the
    index of the component with the largest area, the first in reading order on a tie; None without components.
    """

    numbers: npt.NDArray[np.int32]
    boxes: npt.NDArray[np.int64]
    areas: npt.NDArray[np.int64]
    largest: int | None

    def binary(self, which: int) -> Binary:
        """Component `which` as a binary mask (H, W)."""
        return np.asarray(self.numbers == which + 1)


def components(binary: Binary) -> Components:
    """Find the 8-connected components of a binary mask (H, W).

    >>> found = components(np.array([[True, False, True], [False, False, True]]))
    >>> found.areas.tolist(), found.boxes.tolist(), found.largest
    ([1, 2], [[0, 0, 1, 1], [2, 0, 3, 2]], 1)
    """
    _, labels, stats, _ = cv2.connectedComponentsWithStats(binary.astype(np.uint8), connectivity=8)
    numbers = np.asarray(labels, np.int32)
    left, top, width, height, areas = np.asarray(stats, np.int64)[1:].T  # row 0 is the background
    equal = np.flatnonzero(areas == areas.max(initial=0))
    largest = int(equal[0]) if len(equal) else None
    if len(equal) > 1:  # OpenCV does not number components in reading order
        largest = int(numbers.flat[np.isin(numbers, equal + 1).argmax()]) - 1
    return Components(numbers, np.stack([left, top, left + width, top + height], axis=1), areas, largest)


def largest_component(binary: Binary) -> Binary:
    """Keep the largest 8-connected component of a binary mask (H, W); on a tie, the first in reading order.

    >>> largest_component(np.array([[True, False, True], [False, False, True]])).tolist()
    [[False, False, True], [False, False, True]]
    """
    found = components(binary)
    return np.zeros_like(binary) if found.largest is None else found.binary(found.largest)


def largest_box(binary: Binary) -> Box | None:
    """The tightest box around the largest component of a binary mask (H, W), in the form of `tight_box`.

    >>> largest_box(np.array([[True, False, True], [False, False, True]]))
    (2, 0, 3, 2)
    """
    if binary.size >= LARGE and (box := _box_by_outlines(binary)) is not None:
        return box
    found = components(binary)
    if found.largest is None:
        return None
    x0, y0, x1, y1 = found.boxes[found.largest].tolist()
    return x0, y0, x1, y1


def _box_by_outlines(binary: Binary) -> Box | None:
    """The same box in a twentieth of the time; None if outlines do not decide.

    They do if one has more pixels inside, even without those in its holes, than any other has with them.
    """
    outlines, relations = cv2.findContours(binary.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    if not 0 < len(outlines) <= MOST_OUTLINES:
        return None
    parents = relations[0, :, 3].tolist()  # of a hole: the outline around it
    most = {each: pixels_inside(outlines[each]) for each, parent in enumerate(parents) if parent < 0}
    first, *others = sorted(most, key=lambda each: -most[each])
    # The outline of a hole runs through the pixels around it: the area inside is more than the hole's pixels.
    holes = sum(cv2.contourArea(outlines[each]) for each, parent in enumerate(parents) if parent == first)
    if others and most[first] - holes <= most[others[0]]:
        return None
    x0, y0, width, height = cv2.boundingRect(outlines[first])
    return x0, y0, x0 + width, y0 + height


def pixels_inside(outline: npt.NDArray[Any]) -> float:
    """The number of pixels inside and on an outline (n, 1, 2) through the centres of n neighbouring pixels.

    By Pick's theorem it is area + n / 2 + 1; a single pixel has no area.

    >>> pixels_inside(np.array([[[0, 0]], [[0, 1]], [[1, 1]], [[1, 0]]]))
    4.0
    """
    return float(cv2.contourArea(outline) + len(outline) / 2 + 1) if len(outline) > 1 else 1.0


def tight_box(binary: Binary) -> Box | None:
    """The tightest box x0, y0, x1, y1 around the true pixels of (H, W); x1, y1 are exclusive. None if all are false.

    >>> tight_box(np.array([[False, True, True], [False, False, False]]))
    (1, 0, 3, 1)
    """
    columns, rows = np.flatnonzero(binary.any(axis=0)), np.flatnonzero(binary.any(axis=1))
    if columns.size == 0:
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
