"""Insertion and deletion, Petsiuk et al. 2018, "RISE: Randomized Input Sampling for Explanation of Black-box Models".

Deletion replaces the pixels of an image by the mean colour, the most salient first; insertion puts them, the most
salient first, into a blurred image. The area under the class's probability over the share of changed pixels should be
low for deletion and high for insertion.
"""

import cv2
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
STEPS = 10  # the authors change 224 pixels at a time, 224 steps
KERNEL, SIGMA = 11, 5.0  # of the blur, in pixels, as in the authors' program


def most_salient_first(values: Floats, seed: int = 0) -> npt.NDArray[np.int64]:
    """The indices of a map's pixels (H, W), the highest value first; equal values in a random order: (HW,).

    >>> most_salient_first(np.array([[0.1, 0.9], [0.5, 0.0]]))
    array([1, 2, 0, 3])
    """
    order = np.random.default_rng(seed).permutation(values.size)
    return np.asarray(order[np.argsort(-values.ravel()[order], kind="stable")])


def ranks(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The position of each pixel in an order: (n,) -> (n,).

    >>> ranks(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    found = np.empty_like(order)
    found[order] = np.arange(order.size)
    return found


def replaced(before: Floats, after: Floats, order: npt.NDArray[np.int64], steps: int = STEPS) -> Floats:
    """An image whose first 0, 1 / steps, ... all pixels are those of another: (3, H, W) twice -> (steps + 1, 3, H, W).

    >>> replaced(np.zeros((1, 1, 4)), np.ones((1, 1, 4)), np.array([2, 0, 1, 3]), steps=2)[:, 0, 0]
    array([[0., 0., 0., 0.],
           [1., 0., 1., 0.],
           [1., 1., 1., 1.]])
    """
    counts = np.arange(steps + 1) * order.size // steps
    changed = ranks(order).reshape(before.shape[1:]) < counts[:, None, None]
    return np.where(changed[:, None], after, before)


def blurred(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The image (H, W, 3) that insertion begins with."""
    return np.asarray(cv2.GaussianBlur(image, (KERNEL, KERNEL), SIGMA), np.uint8)


def area_under(curve: Floats) -> float:
    """The area under a curve over equal steps from 0 to 1, by trapezoids.

    >>> area_under(np.array([1.0, 0.5, 0.0]))
    0.5
    """
    return float(np.trapezoid(curve, dx=1 / (len(curve) - 1)))
