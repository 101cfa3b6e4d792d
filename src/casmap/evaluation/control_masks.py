"""Masks that know nothing about a photo, with the area of its own mask: what masks must be better than.

A mask of ones keeps all evidence, and a mask in the centre keeps much of it. So the accuracy on masked photos says
little by itself; only what a mask gains over these control masks does.
"""

import cv2
import numpy as np
import numpy.typing as npt

BinaryMasks = npt.NDArray[np.bool_]

BLOB = 1 / 8  # width of the blobs of random masks, as a share of the image's side


def centred_masks(masks: BinaryMasks) -> BinaryMasks:
    """For each mask a centred box with as many pixels: (N, H, W) -> (N, H, W).

    >>> corner = np.zeros((1, 4, 4), bool)
    >>> corner[:, :2, :2] = True
    >>> centred_masks(corner)[0].astype(int)
    array([[0, 0, 0, 0],
           [0, 1, 1, 0],
           [0, 1, 1, 0],
           [0, 0, 0, 0]])
    """
    height, width = masks.shape[1:]
    rows, columns = np.abs(np.arange(height) - (height - 1) / 2), np.abs(np.arange(width) - (width - 1) / 2)
    from_centre = np.maximum(rows[:, None] / height, columns / width)
    return np.stack([_smallest(from_centre, int(mask.sum())) for mask in masks])


def random_masks(masks: BinaryMasks, seed: int = 0) -> BinaryMasks:
    """For each mask random blobs, an eighth of the image wide, with as many pixels: (N, H, W) -> (N, H, W).

    >>> random_masks(np.eye(16, dtype=bool)[None]).sum()
    np.int64(16)
    """
    rng = np.random.default_rng(seed)
    noise = (rng.standard_normal(mask.shape) for mask in masks)
    blurred = (cv2.GaussianBlur(each, (0, 0), BLOB * max(each.shape)) for each in noise)
    return np.stack([_smallest(field, int(mask.sum())) for field, mask in zip(blurred, masks, strict=True)])


def exchanged_masks(masks: BinaryMasks, seed: int = 0) -> BinaryMasks:
    """For each photo the mask of another one, the next in area; the last gets the first: (N, H, W) -> (N, H, W).

    >>> areas = np.array([3, 1, 2])
    >>> masks = np.arange(4) < areas[:, None, None]
    >>> exchanged_masks(masks).sum(axis=(1, 2))
    array([2, 3, 1])
    """
    ties = np.random.default_rng(seed).permutation(len(masks))  # photos in a row may show the same scene
    order = np.lexsort((ties, masks.sum(axis=(1, 2))))
    found = np.empty_like(masks)
    found[order] = masks[np.roll(order, 1)]
    return found


EXCHANGED = "another photo's"
CONTROLS = {"centred": centred_masks, "random": random_masks, EXCHANGED: exchanged_masks}


def _smallest(values: npt.NDArray[np.floating], count: int) -> BinaryMasks:
    """Whether each value (H, W) is among the `count` smallest; of equal values the first are taken."""
    chosen = np.zeros(values.size, bool)
    chosen[np.argsort(values, axis=None, kind="stable")[:count]] = True
    return chosen.reshape(values.shape)
