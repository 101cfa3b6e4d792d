"""The basic statistics of section 5.1: total variation, entropy, mean and spread of masks."""

import cv2
import numpy as np
import numpy.typing as npt


def total_variation(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Total variation of each mask: (N, H, W) -> (N,). Lower is smoother; it grows with the size of the mask.

    TV = Σ_ij |m_{i+1,j} - m_ij| + |m_{i,j+1} - m_ij|

    >>> total_variation(np.array([[[0.0, 1.0], [0.0, 0.5]]]))  # across 1 and ½, down 0 and ½
    array([2.])
    """
    # One mask at a time in OpenCV: the differences of all masks are never in memory at once.
    return np.array([_l1(mask[1:], mask[:-1]) + _l1(mask[:, 1:], mask[:, :-1]) for mask in masks], np.float64)


def _l1(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    """The sum of absolute differences of two arrays (h, w); 0 for empty ones."""
    return cv2.norm(a, b, cv2.NORM_L1) if a.size else 0.0


def mask_entropy(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Entropy of each mask: (N, H, W) -> (N,). Lower means that more pixels are near 0 or 1.

    The mean over pixels of -m log₂ m, which is 0 at m = 0.

    >>> mask_entropy(np.array([[[0.0, 1.0], [0.5, 0.25]]]))  # (0 + 0 + ½ + ½) / 4
    array([0.25])
    """
    smallest = np.finfo(np.float32).tiny  # its logarithm is finite
    terms = (cv2.multiply(mask, cv2.log(np.maximum(mask, smallest))) for mask in masks)
    return np.array([abs(cv2.mean(term)[0]) / np.log(2) for term in terms], np.float64)  # abs: -x without -0.0


def mean_mask(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The mean m̄ of each mask, which the paper calls its volume: (N, H, W) -> (N,).

    >>> mean_mask(np.array([[[0.0, 1.0], [0.5, 0.5]]]))
    array([0.5])
    """
    return np.asarray(masks.mean(axis=(-2, -1), dtype=np.float64))


def spread(volumes: npt.NDArray[np.floating]) -> float:
    """How much the mean of the mask varies between photos: its standard deviation, (N,) -> float.

    √(Σ_n (m̄_n - μ)² / N), where μ is the mean of m̄ over the N images.

    >>> spread(np.array([0.2, 0.4, 0.6, 0.8]))  # √0.05
    0.22360679774997896
    """
    return float(np.std(volumes))
