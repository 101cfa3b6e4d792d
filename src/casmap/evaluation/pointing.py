"""How well a map points at a region that people drew, at no threshold: its peak, and its highest pixels.

Where pixels have equal values, such as the ones of a saturated mask, each of them may be the peak: the numbers are the
expected values over random orders of equal pixels.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Region = npt.NDArray[np.bool_]


def pointing_game(values: Floats, region: Region) -> float:
    """Whether the peak of a map (H, W) is inside a region (H, W): 0 or 1, or between if several pixels are the peak.

    Zhang et al. 2016, "Top-down Neural Attention by Excitation Backprop", without their tolerance of 15 pixels.

    >>> region = np.array([[True, True, False]])
    >>> pointing_game(np.array([[0.2, 0.9, 0.1]]), region), pointing_game(np.array([[0.2, 0.9, 0.9]]), region)
    (1.0, 0.5)
    """
    return float(region[values == values.max()].mean())


def energy_pointing_game(values: Floats, region: Region) -> float:
    """The share of a map's sum that lies in a region: (H, W), (H, W) -> float; the region's share for a map of zeros.

    Wang et al. 2020, "Score-CAM".

    >>> energy_pointing_game(np.array([[0.6, 0.2, 0.2]]), np.array([[True, False, True]]))
    0.8
    """
    total = values.sum(dtype=np.float64)
    return float(values[region].sum(dtype=np.float64) / total) if total else float(region.mean())


def coverage_at_equal_area(values: Floats, region: Region) -> float:
    """The share of a region (H, W) that the highest pixels of a map (H, W) cover, as many pixels as the region has.

    It is also the precision of these pixels. A map of constant values covers the region's share of the image.

    >>> coverage_at_equal_area(np.array([[0.9, 0.1, 0.5, 0.0]]), np.array([[True, True, False, False]]))
    0.5
    >>> coverage_at_equal_area(np.zeros((2, 2)), np.array([[True, False], [False, False]]))
    0.25
    """
    count = int(region.sum())
    if not count:
        raise ValueError("An empty region has no pixel to cover.")
    lowest = np.partition(values, -count, axis=None)[-count]  # the value of the last pixel that is taken
    above, equal = values > lowest, values == lowest
    taken = region[above].sum() + (count - above.sum()) * region[equal].mean()
    return float(taken / count)
