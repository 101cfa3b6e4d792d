"""The two measures of Choe et al. 2020, "Evaluating Weakly Supervised Object Localization Methods Right".

Both normalise each mask to 0..1 by its minimum and maximum first, so its overall level does not matter. The threshold
of MaxBoxAccV2 is chosen on photos that are never scored.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.evaluation.localization import Floats, iou
from casmap.inference.components import components
from casmap.io.arrays import min_max

Masks = npt.NDArray[np.floating]
IOU_THRESHOLDS = (0.3, 0.5, 0.7)
TAUS = np.arange(51) / 50
# As in the authors' release: a thousand bins of width 0.001, and one for pixels that are exactly 1.
BINS = 1001


def is_tuning(name: str, share: float = 0.2) -> bool:
    """Whether the photo of this name is one of those that choose thresholds and are never scored.

    True if the first 64 bits of the name's SHA-256, as a number in [0, 1), are below `share`: the same everywhere,
    whatever other photos there are.

    >>> [is_tuning(name) for name in ("cat.jpg", "dog.jpg", "owl.jpg")]
    [True, False, False]
    """
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def max_box_acc_v2(
    masks: Masks, boxes: Sequence[Floats], tuning: npt.NDArray[np.bool_]
) -> tuple[Floats, dict[float, float]]:
    """MaxBoxAccV2 of each scored image, and each delta's tau: (N, H, W), N times (n, 4), (N,) -> (M,), dict.

    BoxAcc(tau, delta) = 1 if the box of any connected component of {m >= tau} has IOU >= delta with any true box.
    For each delta of 0.3, 0.5, 0.7, tau is the best of 0, 0.02, ..., 1 on the tuning images (the lowest in a tie); an
    image's score is the mean of its BoxAcc over the deltas.

    >>> masks = np.array([[[1.0, 0.6, 0.0]], [[0.8, 0.5, 0.0]]])
    >>> box = np.array([[0.0, 0, 2, 1]])
    >>> max_box_acc_v2(masks, [box, box], np.array([True, False]))  # the whole has IOU 2/3
    (array([1.]), {0.3: 0.0, 0.5: 0.0, 0.7: 0.02})
    """
    if tuning.all() or not tuning.any():
        raise ValueError("MaxBoxAccV2 needs some photos to choose the threshold and others to score.")
    tune, score = np.flatnonzero(tuning).tolist(), np.flatnonzero(~tuning).tolist()
    tuned = np.array([_best_ious(masks[i], boxes[i], TAUS) for i in tune])
    chosen = np.array([TAUS[(tuned >= delta).mean(axis=0).argmax()] for delta in IOU_THRESHOLDS])
    scored = np.array([_best_ious(masks[i], boxes[i], chosen) for i in score])
    per_image = (scored >= IOU_THRESHOLDS).mean(axis=1)
    return per_image, dict(zip(IOU_THRESHOLDS, chosen.tolist(), strict=True))


def pixel_histograms(mask: Masks, truth: npt.NDArray[np.uint8], bins: int = BINS) -> npt.NDArray[np.int64]:
    """The number of background and object pixels in each bin of the mask: (H, W), (H, W) -> (2, bins).

    A normalised value m falls into bin floor(m (bins - 1)), so the last bin holds the ones. Histograms of images can be
    added: the bootstrap resamples them and calls `average_precision` on their sum.

    >>> pixel_histograms(np.array([[0.0, 0.3], [0.9, 1.0]]), np.array([[0, 0], [128, 255]], dtype=np.uint8), bins=3)
    array([[2, 0, 0],
           [0, 0, 1]])
    """
    bin_numbers = np.floor(min_max(mask) * (bins - 1)).astype(np.int64)
    return np.stack([np.bincount(bin_numbers[truth == value], minlength=bins) for value in (0, 255)])


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


def _best_ious(mask: Masks, boxes: Floats, taus: Floats) -> Floats:
    """For each tau, the highest IOU of a component's box with a true box: (H, W), (n, 4), (T,) -> (T,)."""
    normalised = min_max(mask)
    return np.array([iou(components(normalised >= tau).boxes[:, None], boxes).max(initial=0.0) for tau in taus])
