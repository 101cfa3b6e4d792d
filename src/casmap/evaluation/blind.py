"""Baselines that look at no photo: the centred square whose size fits other photos best, a Gaussian, random blobs."""

import zlib
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from casmap.evaluation.control_masks import BLOB
from casmap.evaluation.evaluate import FIXED, Predictions, System, whole_system
from casmap.evaluation.localization import Floats, iou
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.components import Threshold
from casmap.io.arrays import min_max

SQUARE, GAUSSIAN, RANDOM = "centre square", "centre Gaussian", "random blobs"
SHARES = np.arange(1, 51) / 50  # sides of the squares that are tried, as shares of the image's side
SIGMA = 1 / 4  # of the Gaussian, as a share of the side; its level sets are the same discs for any


def without_photos(system: System, size: int, others: Predictions, threshold: Threshold) -> Predictions:
    """The same photos and truths as `others`, with this system's one mask (size, size) for every photo.

    No photo is opened, because the system looks at none.
    """
    masks, _ = system(np.zeros((1, size, size, 3), np.uint8))
    masks = np.broadcast_to(masks, (len(others.names), size, size))
    return replace(others, masks=masks, class_correct=np.full(len(masks), np.nan), threshold=threshold)


def with_centre_squares(predictions: Predictions) -> Predictions:
    """The predictions with a centred square as each mask; its side has the lowest LE on the other half of the photos.

    The photo's name decides its half. In a tie the side with the highest mean IoU is taken, then the smallest. With
    photos in one half only, the side is chosen on them.
    """
    size = predictions.masks.shape[-1]
    half = np.array([is_tuning(name, 0.5) for name in predictions.names])
    low = np.round((1 - SHARES) / 2 * size)[:, None]
    squares = np.hstack([low, low, size - low, size - low])
    ious = [iou(squares[:, None], truth.boxes).max(axis=1, initial=0.0) for truth in predictions.truths]
    overlaps: Floats = np.array(ious)  # (N, squares)
    if half.all() or not half.any():
        best = np.full(len(half), _best_square(overlaps))
    else:
        best = np.where(half, _best_square(overlaps[~half]), _best_square(overlaps[half]))
    masks = np.zeros_like(predictions.masks)
    for mask, (start, _, end, _) in zip(masks, squares[best].astype(np.int64), strict=True):
        mask[start:end, start:end] = 1
    return replace(predictions, masks=masks)


def _best_square(overlaps: Floats) -> int:
    """The column with the most IoUs above 1/2, in a tie with the highest mean, of the IoUs (N, squares).

    >>> _best_square(np.array([[0.0, 0.1, 0.2]])), _best_square(np.array([[0.0, 0.9, 0.9], [0.6, 0.2, 0.1]]))
    (2, 1)
    """
    return int(np.lexsort((-overlaps.mean(axis=0), (overlaps <= 0.5).sum(axis=0)))[0])


def gaussian_system(images: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.floating], None]:
    """The centre Gaussian of Choe et al.: an isotropic Gaussian in the middle of each image, the same for all."""
    size = images.shape[1]
    across = np.exp(-0.5 * ((np.arange(size) + 0.5 - size / 2) / (SIGMA * size)) ** 2)
    return np.broadcast_to(np.outer(across, across), images.shape[:3]).astype(np.float32), None


def random_system(images: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.floating], None]:
    """Random blobs, an eighth of the image wide, from 0 to 1; the same image always gets the same."""
    seeds = (zlib.crc32(image.tobytes()) for image in images)
    noise = (np.random.default_rng(seed).standard_normal(images.shape[1:3]) for seed in seeds)
    blobs = [min_max(cv2.GaussianBlur(each, (0, 0), BLOB * len(each))) for each in noise]
    return np.stack(blobs).astype(np.float32), None


# All that look at no photo; `with_centre_squares` gives the square its size.
BLIND: dict[str, System] = FIXED | {SQUARE: whole_system, GAUSSIAN: gaussian_system}
SHORTER = ("centre box", GAUSSIAN)  # left out of short tables: the centre square is the strongest
