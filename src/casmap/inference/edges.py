"""Fit the mask of a network, which has one value for 4 x 4 pixels of its input, to the pixels of the photo.

smooth: bilinear interpolation. sharp: the guided filter of He, Sun and Tang (2010) with the photo as the guide, in the
fast form of He and Sun (2015): its coefficients are computed at the decoder's size and applied at the photo's size.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import cv2
import numpy as np
import numpy.typing as npt

from casmap.errors import UserError, option
from casmap.inference.components import Mask
from casmap.io.images import Image

Edges = Literal["sharp", "smooth"]
Floats = npt.NDArray[np.float32]

STEP = 4  # pixels along a side of the network's input for which the decoder computes one value
WINDOW = 0.2  # radius of the filter's windows, as a share of the side of a square that is as large as the object
EPSILON = 1e-4  # variance, for colours in 0..1: what differs by less in a window is no edge
# Pixels of a photo to which the coefficients are applied. Larger photos get the mask of a reduced copy, enlarged: the
# filter needs 20 bytes for each pixel, and a photo may have hundreds of millions.
LIMIT = 2**24


def fit_mask(mask: Mask, square: Image, photo: Image, edges: Edges = "sharp") -> Mask:
    """The mask (S, S) of a network, whose input was square (S, S, 3), at the size of the photo (H, W, 3): (H, W).

    >>> mask, photo = np.zeros((16, 16), np.float32), np.zeros((16, 16, 3), np.uint8)
    >>> mask[:, 8:], photo[:, 9:] = 1, 255
    >>> np.rint(10 * fit_mask(mask, photo, photo, "smooth")[0]).astype(int).tolist()
    [0, 0, 0, 0, 0, 0, 1, 4, 6, 9, 10, 10, 10, 10, 10, 10]
    >>> np.rint(10 * fit_mask(mask, photo, photo, "sharp")[0]).astype(int).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 2, 10, 10, 10, 10, 10, 10, 10]
    """
    height, width = photo.shape[:2]
    # The decoder's last step repeats each value, so every fourth has all there is to interpolate.
    values = np.ascontiguousarray(mask[::STEP, ::STEP], np.float32)
    if edges == "smooth":
        return _enlarged(values, width, height)
    scale = (LIMIT / (height * width)) ** 0.5
    if scale < 1:
        smaller = max(1, int(width * scale)), max(1, int(height * scale))
        photo = np.asarray(cv2.resize(photo, smaller, interpolation=cv2.INTER_AREA), np.uint8)
    small = cv2.resize(square, values.shape[::-1], interpolation=cv2.INTER_AREA)
    filtered = guided(values, np.asarray(small, np.uint8), photo)
    return filtered if scale >= 1 else _enlarged(filtered, width, height)


def check_edges(edges: str) -> Edges:
    """Return `edges`, or raise UserError if it is none of `Edges`.

    >>> check_edges("smooth")
    'smooth'
    """
    if edges not in get_args(Edges):
        raise UserError(f"{option('edges')} must be sharp or smooth, not {edges!r}.")
    return cast(Edges, edges)


def guided(mask: Mask, square: Image, photo: Image) -> Mask:
    """Filter a mask (S, S) of an image (S, S, 3) and apply the filter to its photo (H, W, 3): (H, W) in 0..1.

    In each window the mask is taken for a linear function of the colour I in 0..1, a · I + b, with the a and b that
    minimise the sum over the window of (a · I + b - m)² + ε |a|². That is a = (cov(I, I) + ε)⁻¹ cov(I, m) and
    b = mean(m) - a · mean(I). A pixel lies in many windows: with the means of their coefficients, q = ā · I + b̄.

    >>> black = np.zeros((8, 8, 3), np.uint8)
    >>> guided(np.full((8, 8), 0.25, np.float32), black, black)[0, 0]
    np.float32(0.25)
    """
    height, width = photo.shape[:2]
    *factors, filtered = (_enlarged(one, width, height) for one in coefficients(mask, square, radius_of(mask)))
    for factor, colour in zip(factors, cv2.split(photo), strict=True):
        cv2.add(filtered, cv2.multiply(factor, colour, dst=factor, scale=1 / 255, dtype=cv2.CV_32F), dst=filtered)
    return np.clip(filtered, 0, 1, out=filtered)


def radius_of(mask: Mask) -> int:
    """The radius of the filter's windows for a mask (S, S), whose sum is the area of the object.

    Windows grow with the object. In windows that are much larger, a small object would fade into its background.

    >>> radius_of(np.ones((100, 100), np.float32)), radius_of(np.zeros((100, 100), np.float32))
    (20, 1)
    """
    return max(1, round(WINDOW * math.sqrt(mask.sum(dtype=np.float64))))


def coefficients(mask: Mask, image: Image, radius: int) -> list[Floats]:
    """The guided filter's coefficients for a mask (S, S) and an image (S, S, 3): ā of each channel, and b̄, all (S, S).

    Windows that reach beyond the border continue with the image mirrored there.
    """
    side = 2 * radius + 1

    def mean(values: Floats) -> Floats:
        return np.asarray(cv2.blur(values, (side, side), borderType=cv2.BORDER_REFLECT), np.float32)

    # Less the means of the whole image, float32 has more digits for small covariances.
    *colours, level = (np.float32(value) for value in (*np.array(cv2.mean(image)[:3]) / 255, cv2.mean(mask)[0]))
    *guide, m = *map(np.subtract, np.asarray(cv2.split(image)) / np.float32(255), colours), mask - level
    *means, mean_m = (mean(one) for one in (*guide, m))
    # The equations (cov(I, I) + ε) a = cov(I, m): the upper triangle of their matrix, and the right side.
    rows = [
        [mean(guide[i] * guide[j]) - means[i] * means[j] for j in range(i, 3)]
        + [mean(guide[i] * m) - means[i] * mean_m]
        for i in range(3)
    ]
    for row in rows:
        row[0] += np.float32(EPSILON)
    a = _solve(rows)
    b = mean_m - _dot(a, means)
    *a, b = (mean(one) for one in (*a, b))
    return [*a, b + level - _dot(a, colours)]


def _solve(rows: list[list[Floats]]) -> list[Floats]:
    """Solve symmetric positive definite equations in every pixel, by elimination; the rows are consumed."""
    for i, (pivot, *others) in enumerate(rows):
        for j, below in enumerate(rows[i + 1 :]):
            factor = others[j] / pivot
            for k in range(len(below)):
                below[k] -= factor * others[j + k]
    found: list[Floats] = []
    for pivot, *others, right in reversed(rows):
        found.insert(0, (right - _dot(others, found)) / pivot)
    return found


def _dot(one: Sequence[Any], other: Sequence[Any]) -> Any:
    return sum(x * y for x, y in zip(one, other, strict=True))


def _enlarged(values: Floats, width: int, height: int) -> Floats:
    """Interpolate (h, w) bilinearly: (height, width)."""
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
