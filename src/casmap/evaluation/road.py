"""ROAD, Rong et al. 2022, "A Consistent and Efficient Evaluation Strategy for Attribution Methods".

A share of the pixels is removed, the most or the least salient first, and imputed from those that are left, so that the
shape of the hole tells nothing. The class should stay probable without the least salient pixels and become improbable
without the most salient ones.
"""

import cv2
import numpy as np
import numpy.typing as npt

from casmap.evaluation.insertion import ranks

Floats = npt.NDArray[np.floating]
SHARES = (0.2, 0.4, 0.6, 0.8)  # removed pixels
NOISE = 0.01  # standard deviation of what is added to imputed pixels, of images normalised for the classifier
NEIGHBOURS = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]]) / 12
SMALLEST = 8  # pixels; smaller images are not halved
TOLERANCE, MOST = 1e-5, 500  # the residual at which the solver stops, as a share of the image, and its iterations


def imputed(image: Floats, missing: npt.NDArray[np.bool_]) -> Floats:
    """An image (H, W, C) whose missing pixels (H, W) are weighted means of their neighbours (linear imputation).

    A neighbour at an edge has the weight 1/6, one at a corner 1/12; those outside the image are left out. The equations
    of all missing pixels are solved by conjugate gradients, from the solution at half the size.

    >>> imputed(np.array([[[1.0], [9.0], [3.0]]]), np.array([[False, True, False]]))[0, :, 0].round(3).tolist()
    [1.0, 2.0, 3.0]
    """
    hole = missing[..., None].astype(np.float32)
    weights = _neighbours(np.ones_like(hole))
    known = np.asarray(image, np.float32) * (1 - hole)
    target = hole * _neighbours(known)
    found = hole * _from_half(known, 1 - hole)
    residual = target - hole * (weights * found - _neighbours(found))
    direction, left = residual, float((residual**2).sum())
    enough = TOLERANCE**2 * float((known**2).sum())
    for _ in range(MOST):
        if left <= enough:
            break
        changed = hole * (weights * direction - _neighbours(direction))
        length = left / float((direction * changed).sum())
        found, residual = found + length * direction, residual - length * changed
        before, left = left, float((residual**2).sum())
        direction = residual + left / before * direction
    return np.asarray(known + found)


def _from_half(known: Floats, share: Floats) -> Floats:
    """A first guess of all pixels: the image imputed at half the size, enlarged; at the end of it, the mean."""
    height, width = share.shape[:2]
    if min(height, width) < SMALLEST:
        return np.broadcast_to(known.sum(axis=(0, 1)) / share.sum(), known.shape)
    small, part = (_resized(each, (width // 2, height // 2), cv2.INTER_AREA) for each in (known, share))
    half = imputed(small / np.maximum(part, 1e-6), part[..., 0] < 1e-6)
    return _resized(half, (width, height), cv2.INTER_LINEAR)


def _resized(image: Floats, size: tuple[int, int], interpolation: int) -> Floats:
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), np.float32).reshape(*size[::-1], -1)


def without(image: Floats, order: npt.NDArray[np.int64], shares: tuple[float, ...] = SHARES, seed: int = 0) -> Floats:
    """A normalised image (3, H, W) without the first pixels of `order`, for each share: (len(shares), 3, H, W)."""
    random, found = np.random.default_rng(seed), []
    rank = ranks(order)
    for share in shares:
        missing = (rank < round(share * order.size)).reshape(image.shape[1:])
        filled = imputed(image.transpose(1, 2, 0), missing)
        noisy = filled + NOISE * random.standard_normal(filled.shape) * missing[..., None]
        found.append(noisy.transpose(2, 0, 1))
    return np.stack(found)


def road(least_first: Floats, most_first: Floats) -> float:
    """ROAD from the class's probabilities without the least and without the most salient pixels: (K,), (K,) -> float.

    Half of the mean difference, as in pytorch-grad-cam: 1/2 at best, 0 for a map that knows nothing.

    >>> road(np.array([0.75, 0.5]), np.array([0.25, 0.0]))
    0.25
    """
    return float((least_first - most_first).mean() / 2)


def _neighbours(values: Floats) -> Floats:
    """The weighted sum of the eight neighbours of each pixel, 0 outside: (H, W, C) -> (H, W, C)."""
    found = cv2.filter2D(values, -1, NEIGHBOURS, borderType=cv2.BORDER_CONSTANT)
    return np.asarray(found, np.float32).reshape(values.shape)
