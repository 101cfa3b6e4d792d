"""How much of the evidence a mask covers, in scenes where every part that suffices to recognise the class is known.

A mask of ones has recall 1, so compare recall only between masks of the same area: binarise with `alpha_for_area`
first, and report the precision as well.
"""

import numpy as np
import numpy.typing as npt

from casmap.inference.components import binary_mask

# Each step halves the range of alpha, which is at most H x W wide: 2 ** -40 of it is below the resolution of float32.
STEPS = 40


def evidence_recall(binary: npt.NDArray[np.bool_], parts: npt.NDArray[np.bool_]) -> float:
    """The mean over parts of the share of each part that a binary mask covers: (H, W), (P, H, W) -> float.

    1/P Σ_p |b ∩ p| / |p|, over the parts with a visible pixel. Each part has the same weight, however small it is.

    >>> parts = np.array([[[1, 1, 0, 0]], [[0, 0, 0, 1]], [[0, 0, 0, 0]]], dtype=bool)
    >>> evidence_recall(np.array([[True, False, True, True]]), parts)  # (1/2 + 1) / 2
    0.75
    """
    sizes = parts.sum(axis=(-2, -1))
    visible = sizes > 0
    if not visible.any():
        raise ValueError("No part of this scene is visible: evidence recall is not defined.")
    covered = (parts & binary).sum(axis=(-2, -1))
    return float((covered[visible] / sizes[visible]).mean())


def evidence_precision(binary: npt.NDArray[np.bool_], parts: npt.NDArray[np.bool_]) -> float:
    """The share of a binary mask that lies in at least one part: (H, W), (P, H, W) -> float; 0 for an empty mask.

    |b ∩ (p_1 ∪ ... ∪ p_P)| / |b|

    >>> parts = np.array([[[1, 1, 0, 0]], [[0, 1, 0, 1]]], dtype=bool)
    >>> evidence_precision(np.array([[False, True, True, False]]), parts)
    0.5
    """
    return float((binary & parts.any(axis=0)).sum() / max(int(binary.sum()), 1))


def alpha_for_area(masks: npt.NDArray[np.floating], area: float) -> float:
    """The one alpha with which binary masks of masks (N, H, W) cover the share `area` of their images on average.

    argmin_α | 1/N Σ_n mean(m_n >= α m̄_n) - area |. Recall can only be compared between mappings whose binary masks have
    the same area. The area falls in steps as alpha grows, so bisection finds it; if flat masks skip the requested area,
    the nearest area that they reach is used.

    >>> masks = np.array([[[0.1, 0.2, 0.3, 0.4]]])
    >>> alpha = alpha_for_area(masks, 0.25)
    >>> binary_mask(masks, alpha)
    array([[[False, False, False,  True]]])
    """
    if not 0 <= area <= 1:
        raise ValueError(f"area must be between 0 and 1, not {area}.")
    means, peaks = masks.mean(axis=(-2, -1)), masks.max(axis=(-2, -1))
    # Above the highest peak all binary masks are empty, except those of all-zero masks.
    low, high = 0.0, 1.0 + float(np.max(peaks[means > 0] / means[means > 0], initial=0.0))
    areas = {alpha: float(binary_mask(masks, alpha).mean()) for alpha in (low, high)}
    for _ in range(STEPS):
        middle = (low + high) / 2
        areas[middle] = float(binary_mask(masks, middle).mean())
        low, high = (middle, high) if areas[middle] >= area else (low, middle)
    # In a tie take the first alpha tried: it lies inside the step, where rounding cannot move a pixel across its edge.
    return min(areas, key=lambda alpha: abs(areas[alpha] - area))
