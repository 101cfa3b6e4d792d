"""The basic statistics of section 5.1: how regular, how decided and how varied the masks are."""

import numpy as np
import numpy.typing as npt


def total_variation(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Total variation of each mask: (N, H, W) -> (N,). Lower is more regular; it grows with the size of the mask.

    TV = Σ_ij |m_{i+1,j} - m_ij| + |m_{i,j+1} - m_ij|

    >>> total_variation(np.array([[[0.0, 1.0], [0.0, 0.5]]]))  # across 1 and ½, down 0 and ½
    array([2.])
    """
    down = np.abs(np.diff(masks, axis=-2)).sum(axis=(-2, -1), dtype=np.float64)
    across = np.abs(np.diff(masks, axis=-1)).sum(axis=(-2, -1), dtype=np.float64)
    return np.asarray(down + across)


def mask_entropy(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Entropy of the pixels of each mask: (N, H, W) -> (N,). Lower is closer to 0 or 1.

    The mean over pixels of -m log₂ m, which is 0 at m = 0.

    >>> mask_entropy(np.array([[[0.0, 1.0], [0.5, 0.25]]]))  # (0 + 0 + ½ + ½) / 4
    array([0.25])
    """
    logarithms = np.log2(masks, out=np.zeros_like(masks), where=masks > 0)
    return np.asarray(np.abs((masks * logarithms).mean(axis=(-2, -1), dtype=np.float64)))  # the sign is -, without -0.0


def mean_mask(masks: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """The average intensity m̄ of each mask, the masked out volume: (N, H, W) -> (N,).

    >>> mean_mask(np.array([[[0.0, 1.0], [0.5, 0.5]]]))
    array([0.5])
    """
    return np.asarray(masks.mean(axis=(-2, -1), dtype=np.float64))


def spread(volumes: npt.NDArray[np.float64]) -> float:
    """How much the size of the mask follows the photo: the standard deviation over images of m̄, (N,) -> float.

    √(Σ_n (m̄_n - μ)² / N), where μ is the mean of m̄ over the N images.

    >>> spread(np.array([0.2, 0.4, 0.6, 0.8]))  # √0.05
    0.22360679774997896
    """
    return float(np.std(volumes))
