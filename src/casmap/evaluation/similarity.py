"""How similar two maps are: rank correlation and SSIM, as in Adebayo et al. 2018, "Sanity Checks for Saliency Maps"."""

import cv2
import numpy as np
import numpy.typing as npt

from casmap.io.arrays import min_max

Floats = npt.NDArray[np.floating]
SIGMA, KERNEL = 1.5, 11  # of the Gaussian window of Wang et al. 2004
C1, C2 = 0.01**2, 0.03**2  # for values from 0 to 1


def rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's correlation of two maps; equal values share their mean rank; 0 if a map is constant.

    >>> a = np.array([[0.1, 0.2], [0.7, 0.9]])
    >>> round(rank_correlation(a, a**3), 6), round(rank_correlation(a, -a), 6), rank_correlation(a, a * 0)
    (1.0, -1.0, 0.0)
    """
    first, second = (_ranks(each) for each in (a, b))
    spread = float(first.std() * second.std())
    return float(((first - first.mean()) * (second - second.mean())).mean()) / spread if spread else 0.0


def ssim(a: Floats, b: Floats) -> float:
    """Structural similarity of two maps (H, W), each rescaled to 0..1 (Wang et al. 2004), the mean over the image.

    >>> a = np.arange(256.0).reshape(16, 16)
    >>> ssim(a, 3 * a + 2)
    1.0
    """
    return float(ssim_map(a, b).mean())


def ssim_map(a: Floats, b: Floats) -> npt.NDArray[np.float64]:
    """The structural similarity around each pixel (H, W)."""
    x, y = min_max(a), min_max(b)
    means = _smooth(x), _smooth(y)
    spreads = _smooth(x * x) - means[0] ** 2, _smooth(y * y) - means[1] ** 2
    both = _smooth(x * y) - means[0] * means[1]
    above = (2 * means[0] * means[1] + C1) * (2 * both + C2)
    below = (means[0] ** 2 + means[1] ** 2 + C1) * (spreads[0] + spreads[1] + C2)
    return np.asarray(above / below, np.float64)


def _ranks(values: Floats) -> npt.NDArray[np.float64]:
    """The rank of each value (HW,), the mean of their ranks for equal ones."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which.ravel()], np.float64)


def _smooth(image: Floats) -> npt.NDArray[np.float64]:
    blurred = cv2.GaussianBlur(np.asarray(image, np.float64), (KERNEL, KERNEL), SIGMA, borderType=cv2.BORDER_REFLECT)
    return np.asarray(blurred, np.float64)
