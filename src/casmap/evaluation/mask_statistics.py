"""The basic statistics of section 5.1: how regular, how decided and how varied the masks are."""

import cv2
import numpy as np
import numpy.typing as npt


def total_variation(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Total variation of each mask: (N, H, W) -> (N,). Lower is more regular; it grows with the size of the mask.

    TV = Σ_ij |m_{i+1,j} - m_ij| + |m_{i,j+1} - m_ij|

    >>> total_variation(np.array([[[0.0, 1.0], [0.0, 0.5]]]))  # across 1 and ½, down 0 and ½
    array([2.])
    """
    # Mask by mask in OpenCV: no differences of all masks wait in memory to be summed.
    return np.array([_apart(mask[1:], mask[:-1]) + _apart(mask[:, 1:], mask[:, :-1]) for mask in masks], np.float64)


def _apart(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    """The sum of absolute differences of (h, w) and (h, w), of which there may be none."""
    return cv2.norm(a, b, cv2.NORM_L1) if a.size else 0.0


def mask_entropy(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Entropy of the pixels of each mask: (N, H, W) -> (N,). Lower is closer to 0 or 1.

    The mean over pixels of -m log₂ m, which is 0 at m = 0.

    >>> mask_entropy(np.array([[[0.0, 1.0], [0.5, 0.25]]]))  # (0 + 0 + ½ + ½) / 4
    array([0.25])
    """
    nearly_0 = np.finfo(np.float32).tiny  # whose logarithm is a number
    terms = (cv2.multiply(mask, cv2.log(np.maximum(mask, nearly_0))) for mask in masks)
    return np.array([abs(cv2.mean(term)[0]) / np.log(2) for term in terms], np.float64)  # the sign is -, without -0.0


def mean_mask(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The average intensity m̄ of each mask, the masked out volume: (N, H, W) -> (N,).

    >>> mean_mask(np.array([[[0.0, 1.0], [0.5, 0.5]]]))
    array([0.5])
    """
    return np.asarray(masks.mean(axis=(-2, -1), dtype=np.float64))


def spread(volumes: npt.NDArray[np.floating]) -> float:
    """How much the size of the mask follows the photo: the standard deviation over images of m̄, (N,) -> float.

    √(Σ_n (m̄_n - μ)² / N), where μ is the mean of m̄ over the N images.

    >>> spread(np.array([0.2, 0.4, 0.6, 0.8]))  # √0.05
    0.22360679774997896
    """
    return float(np.std(volumes))
