"""The protocol of Choe et al. 2020 (wsolevaluation), and the paper's localization error of the same squashed photos.

The photo is squashed, its mask resized to 224 x 224 by cubic interpolation, and true boxes become whole pixels of that
square. The authors choose the thresholds of MaxBoxAccV2 on the photos that they score; with held-out thresholds, those
of each half of the photos are chosen on the other half. `wsol_metrics` has the formulas. A pixel of a resized true mask
is the old one under its centre; the authors take the old one under its upper left corner.
"""

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np

from casmap.data.resizing import resize_annotation
from casmap.evaluation.evaluate import Floats, Predictions, Row, localization_errors
from casmap.evaluation.numbers import Number, bootstrap_of_sums, mean_of
from casmap.evaluation.wsol_metrics import (
    at_best_threshold,
    average_precision,
    box_accuracy,
    is_tuning,
    pixel_histograms,
)

SIDE = 224
ROUNDING = 1e-6  # an edge at a whole pixel may be computed as slightly less
V2, HELD_OUT, PXAP, SQUASHED = "MaxBoxAccV2", "MaxBoxAccV2, held-out thresholds", "PxAP", "LE squashed, alpha 1"
WSOL_MEASURES = {V2: f"{V2} ↑", HELD_OUT: "held-out thresholds ↑", PXAP: f"{PXAP} ↑", SQUASHED: "LE squashed ↓"}
WSOL_PROTOCOL = (
    "The photo squashed, its mask resized to 224 x 224, as in wsolevaluation. MaxBoxAccV2: the mean over IoU 0.3, 0.5 "
    "and 0.7 of the share of photos with a correct box at the best threshold for these photos, as Choe et al. choose "
    "it; held-out thresholds: for each half of the photos the best on the other half. LE: alpha 1. Centre square: its "
    "size is chosen on the other half of the photos."
)


def _resized(mask: Floats) -> Floats:
    if mask.min() == mask.max():  # rounding would make it a map of noise
        return np.full((SIDE, SIDE), mask[0, 0], np.float32)
    resized = cv2.resize(mask.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    return np.asarray(resized, np.float32)


def measure_wsol(name: str, predictions: Predictions) -> Row:
    """MaxBoxAccV2, PxAP (with true masks) and LE at alpha 1; predictions: of "squash", with the decoder's masks."""
    values: dict[str, Floats] = {SQUASHED: localization_errors(predictions, alpha=1.0)}
    size = predictions.masks.shape[-1]
    truths = [resize_annotation(truth, size, size, SIDE, "squash") for truth in predictions.truths]
    boxes = [np.floor(truth.boxes + ROUNDING) for truth in truths]
    with ThreadPoolExecutor() as pool:  # OpenCV releases the GIL while it finds contours
        correct = np.stack(list(pool.map(lambda mask, of: box_accuracy(_resized(mask), of), predictions.masks, boxes)))
    values[V2] = at_best_threshold(correct, np.ones(len(correct), bool))
    half = np.array([is_tuning(photo, 0.5) for photo in predictions.names])
    if half.any() and not half.all():
        values[HELD_OUT] = np.where(half, at_best_threshold(correct, ~half), at_best_threshold(correct, half))
    numbers = {key: mean_of(value) for key, value in values.items()}
    if all(truth.mask is not None for truth in truths):
        pairs = zip(predictions.masks, (truth.mask for truth in truths), strict=True)
        histograms = np.stack([pixel_histograms(_resized(mask), truth) for mask, truth in pairs if truth is not None])
        if histograms[:, 1].any():
            # 0 for a bootstrap sample without any pixel of an object
            interval = bootstrap_of_sums(histograms, lambda total: average_precision(total) if total[1].any() else 0.0)
            numbers[PXAP] = Number(average_precision(histograms.sum(axis=0)), *interval)
    return Row(name, numbers, values)
