"""The two measures of Choe et al. 2020, "Evaluating Weakly Supervised Object Localization Methods Right".

They are those of the authors' evaluator, wsolevaluation. Both normalise each mask to 0..1 by its minimum and maximum
first, so its overall level does not matter.
"""

import hashlib
import os
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.evaluation.localization import Floats, iou
from casmap.io.arrays import min_max

Mask = npt.NDArray[np.floating]
Accuracy = npt.NDArray[np.bool_]
IOU_THRESHOLDS = (0.3, 0.5, 0.7)
THRESHOLDS = np.arange(0, 1, 0.001)
EDGES = np.append(THRESHOLDS, 1.0)  # the lower edges of the bins; the last holds the pixels that are exactly 1
LAST_PIXEL = np.array([0, 0, 1, 1])  # boxes include their last column and row


def is_tuning(name: str, share: float) -> bool:
    """Whether the photo of this name is one of those that choose thresholds.

    True if the first 64 bits of the name's SHA-256, as a number in [0, 1), are below `share`: the same everywhere,
    whatever other photos there are.

    >>> [is_tuning(name, 0.2) for name in ("cat.jpg", "dog.jpg", "owl.jpg")]
    [True, False, False]
    """
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def box_accuracy(mask: Mask, boxes: Floats) -> Accuracy:
    """Whether any box of a mask (H, W) finds a true box (n, 4), for each IOU and threshold: (3, 1000).

    The normalised mask is reduced to 8 bits. At each threshold of 0, 0.001, ... 0.999 every contour of the pixels above
    it, also that of a hole, gives a box. A true box is found if its IOU with one of them is at least 0.3, 0.5 or 0.7.

    >>> box_accuracy(np.array([[1.0, 0.6, 0.0, 0.0]]), np.array([[0.0, 0, 1, 0]]))[:, [0, 700]].tolist()
    [[True, True], [True, True], [False, True]]
    """
    grey = (min_max(mask) * 255).astype(np.uint8)
    levels = (THRESHOLDS * grey.max()).astype(np.int64)
    # Thresholds with no grey value between them keep the same pixels.
    _, first, which = np.unique(
        np.searchsorted(np.unique(grey), levels, "right"), return_index=True, return_inverse=True
    )
    found = (contour_boxes(grey, int(level)) for level in levels[first])
    best = [iou((each + LAST_PIXEL)[:, None], boxes + LAST_PIXEL).max(initial=0.0) for each in found]
    return np.asarray(np.array(best)[which] >= np.array(IOU_THRESHOLDS)[:, None])


def contour_boxes(grey: npt.NDArray[np.uint8], level: int) -> npt.NDArray[np.int64]:
    """The box of each contour of the pixels above a level, or a single pixel if there are none: (H, W) -> (k, 4).

    The last column and row are those after the contour, as far as the image has them; the measure then includes them.

    >>> contour_boxes(np.array([[9, 0, 9, 9, 0]], np.uint8), 5).tolist()
    [[2, 0, 4, 0], [0, 0, 1, 0]]
    """
    _, binary = cv2.threshold(grey, level, 255, cv2.THRESH_BINARY)
    contours, _ = cv2.findContours(binary, cv2.RETR_TREE, cv2.CHAIN_APPROX_SIMPLE)
    if not contours:
        return np.zeros((1, 4), np.int64)
    points, starts = np.concatenate(contours)[:, 0], np.cumsum([0, *map(len, contours[:-1])])
    low, high = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts) + 1
    height, width = grey.shape
    return np.hstack([low, np.minimum(high, [width - 1, height - 1])]).astype(np.int64)


def at_best_threshold(correct: npt.NDArray[np.bool_], choosing: npt.NDArray[np.bool_]) -> Floats:
    """MaxBoxAccV2 of each image at the thresholds that are best on some of them: (N, 3, T), (N,) -> (N,).

    Each IOU has its own threshold, the lowest in a tie. An image's score is the mean over the three.

    >>> correct = np.array([[[True, False]] * 3, [[False, True]] * 3])
    >>> at_best_threshold(correct, np.array([False, True]))
    array([0., 1.])
    """
    best = correct[choosing].mean(axis=0).argmax(axis=1)
    return np.asarray(correct[:, np.arange(len(best)), best].mean(axis=1))


def pixel_histograms(mask: Mask, truth: npt.NDArray[np.uint8], edges: Floats = EDGES) -> npt.NDArray[np.int64]:
    """The number of background and object pixels in each bin of the mask: (H, W), (H, W) -> (2, bins).

    A bin reaches from its edge up to the next. Histograms of images can be added: the bootstrap resamples them and
    calls `average_precision` on their sum.

    >>> truth = np.array([[0, 0], [128, 255]], dtype=np.uint8)
    >>> pixel_histograms(np.array([[0.0, 0.3], [0.9, 1.0]]), truth, edges=np.array([0, 0.5, 1]))
    array([[2, 0, 0],
           [0, 0, 1]])
    """
    bins = np.searchsorted(edges, min_max(mask), "right") - 1
    return np.stack([np.bincount(bins[truth == value], minlength=len(edges)) for value in (0, 255)])


def average_precision(histograms: npt.NDArray[Any]) -> float:
    """The area under the precision-recall curve with thresholds at the bins: (2, bins) -> float.

    AP = Σ_i (R_i - R_{i-1}) P_i, from the highest threshold to the lowest.

    >>> average_precision(np.array([[1, 1, 0], [0, 1, 1]]))  # 1/2 * 1 + 1/2 * 2/3
    0.8333333333333333
    """
    false, true = histograms[:, ::-1].cumsum(axis=1)
    if true[-1] == 0:
        raise ValueError("Average precision needs at least one object pixel.")
    precision = true / np.maximum(true + false, 1)
    recall = true / true[-1]
    return float((np.diff(recall, prepend=0.0) * precision).sum())
