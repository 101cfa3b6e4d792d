"""The saliency metric of Dabkowski & Gal 2017, "Real Time Image Saliency for Black Box Classifiers".

    s(a, p) = log max(a, 0.05) - log p

a: the share of the image in the box of the largest component, as for LE; Dabkowski & Gal take the box of everything
that is salient, which one stray pixel enlarges. p: the probability of the class when the classifier sees the
crop of this box only, enlarged to the size of its input. Lower is better.
"""

import cv2
import numpy as np
import numpy.typing as npt

from casmap.inference.components import Box

SMALLEST = 0.05  # a smaller share of the image counts as this


def enlarged_crop(image: npt.NDArray[np.uint8], box: Box | None) -> npt.NDArray[np.uint8]:
    """The crop of a box, enlarged to the image's size; the whole image without a box: (H, W, 3) -> (H, W, 3)."""
    if box is None:
        return image
    x0, y0, x1, y1 = box
    height, width = image.shape[:2]
    return np.asarray(cv2.resize(image[y0:y1, x0:x1], (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


def saliency_metric(box: Box | None, size: int, log_probability: float) -> float:
    """The saliency metric of a box in an image (size, size), whose class has this log-probability in the crop.

    >>> saliency_metric((0, 0, 5, 10), 10, np.log(0.5)), round(saliency_metric((0, 0, 1, 1), 10, 0.0), 3)
    (0.0, -2.996)
    """
    x0, y0, x1, y1 = box or (0, 0, size, size)
    return float(np.log(max((x1 - x0) * (y1 - y0) / size**2, SMALLEST)) - log_probability)
