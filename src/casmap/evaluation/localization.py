"""Object localization as in section 5.3: the official metric (OM), the localization error (LE) and the continuous F1.

A box is x0, y0, x1, y1 in pixel edges: x1 - x0 is its width. True boxes may extend beyond the image.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]
Floats = npt.NDArray[np.float64]


def iou(box: npt.ArrayLike, boxes: npt.ArrayLike) -> Floats:
    """Intersection over union of one box with each of several: (4,), (n, 4) -> (n,); leading axes broadcast.

    IOU(A, B) = |A ∩ B| / |A ∪ B|, and 0 if both are empty.

    >>> iou((0, 0, 2, 2), [[0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6]])
    array([1.        , 0.33333333, 0.        ])
    """
    a, b = np.asarray(box, dtype=np.float64), np.asarray(boxes, dtype=np.float64)
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    both = np.maximum(sides, 0.0).prod(axis=-1)
    either = _area(a) + _area(b) - both
    return np.asarray(np.divide(both, either, out=np.zeros_like(either), where=either > 0))


def localization_error(predicted: Sequence[Box | None], true: Sequence[Floats]) -> Floats:
    """LE of each image: 0 if its box has an IOU above 0.5 with a true box, else 1; N boxes, N times (n, 4) -> (N,).

    >>> localization_error([(0, 0, 2, 2), None], [np.array([[0.0, 0, 2, 3]]), np.array([[0.0, 0, 2, 3]])])
    array([0., 1.])
    """
    pairs = zip(predicted, true, strict=True)
    return np.array([box is None or not (iou(box, boxes) > 0.5).any() for box, boxes in pairs], dtype=np.float64)


def official_metric(errors: Floats, right_class: npt.NDArray[np.bool_]) -> Floats:
    """OM of each image: 0 if it is localized and its top-1 class is correct, else 1; (N,), (N,) -> (N,).

    >>> official_metric(np.array([0.0, 0.0, 1.0]), np.array([True, False, True]))
    array([0., 1., 1.])
    """
    return np.where(right_class, errors, 1.0)


def continuous_f1(mask: npt.NDArray[np.floating], boxes: Floats) -> float:
    """F1 of a mask (H, W) with the true box of boxes (n, 4) that gives the highest F1; 0 without mask or box.

    P = Σ_{B*} m / Σ m and R = Σ_{B*} m / |B*|, so F1 = 2PR / (P + R) = 2 Σ_{B*} m / (Σ m + |B*|).
    Each pixel is weighted by the share of it that lies in B*; |B*| includes what lies outside the image.

    >>> continuous_f1(np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([[0.0, 0, 2, 1]]))  # P = 3/4, R = 3/4
    0.75
    """
    if len(boxes) == 0:
        return 0.0
    columns = _coverage(boxes[:, 0], boxes[:, 2], mask.shape[1])
    rows = _coverage(boxes[:, 1], boxes[:, 3], mask.shape[0])
    inside = (rows @ mask * columns).sum(axis=1)
    whole = mask.sum(dtype=np.float64) + _area(boxes)
    return float(np.divide(2 * inside, whole, out=np.zeros_like(inside), where=whole > 0).max())


def mask_iou(binary: npt.NDArray[np.bool_], truth: npt.NDArray[np.uint8]) -> float:
    """IOU of a binary mask (H, W) with the object (255) of a true mask (H, W); pixels of 128 are ignored.

    >>> mask_iou(np.array([[True, True, True]]), np.array([[255, 0, 128]], dtype=np.uint8))
    0.5
    """
    counted, is_object = truth != 128, truth == 255
    either = (counted & (binary | is_object)).sum()
    return float((binary & is_object).sum() / either) if either else 0.0


def center_mask(height: int, width: int) -> Floats:
    """The centre box: it covers half of the image, both sides times √½, as a mask (H, W).

    It does not depend on the photo. Each pixel has the share of it that lies in the box, so the mean of the mask is ½.

    >>> center_mask(2, 2).round(3)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    low = np.array([(1 - np.sqrt(0.5)) / 2])
    rows = _coverage(low * height, (1 - low) * height, height)
    return rows.T * _coverage(low * width, (1 - low) * width, width)


def _area(boxes: Floats) -> Floats:
    """|B| of boxes: (..., 4) -> (...)."""
    return np.asarray((boxes[..., 2:] - boxes[..., :2]).prod(axis=-1))


def _coverage(low: Floats, high: Floats, length: int) -> Floats:
    """How much of each pixel [j, j + 1] of a line lies in each interval [low, high]: (n,), (n,) -> (n, length)."""
    left = np.arange(length, dtype=np.float64)
    return np.asarray(np.maximum(np.minimum(high[:, None], left + 1) - np.maximum(low[:, None], left), 0.0))
