"""Find letters and calipers that are burnt into grey images, at any place, in some classes more than in others.

People place them where they see something, so a classifier may read them instead of the tissue.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

REACH, CONTRAST = 2, 50  # a stroke is brighter by this, of 255, than the pixels this far to its left and right
STROKES = 10  # pixels of strokes from which an image counts as marked
GREY = 8  # difference between the channels of a pixel up to which it is grey
ENOUGH = 10  # images of a class; with fewer there is no warning
EXCESS, LEVEL = 0.2, 0.01  # share of marked images that two classes differ by, and the probability of it by chance
PERMUTATIONS = 1000


def strokes(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """The pixels of thin, bright, upright strokes: (H, W, 3) -> (H, W); none in an image with colours.

    Bright layers of tissue lie across ultrasound scans and do not count.

    >>> image = np.zeros((1, 9, 3), np.uint8)
    >>> image[:, 4] = 200
    >>> strokes(image)[0].astype(int)
    array([0, 0, 0, 0, 1, 0, 0, 0, 0])
    """
    levels = image.astype(np.int16)
    if np.ptp(levels, axis=2).max() > GREY:
        return np.zeros(image.shape[:2], bool)
    grey = np.pad(levels[..., 0], ((0, 0), (REACH, REACH)), mode="edge")
    beside = np.maximum(grey[:, : -2 * REACH], grey[:, 2 * REACH :])
    return np.asarray(grey[:, REACH:-REACH] >= beside + CONTRAST)


def burnt_in_warnings(
    pixels: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], classes: Sequence[str]
) -> list[str]:
    """A sentence if one class has strokes in many more images than another: pixels (N,) of strokes, labels (N,).

    The difference between the class with most and the class with fewest must be larger than those of random labels.

    >>> burnt_in_warnings(np.repeat([40, 0], 20), np.repeat([0, 1], 20), ["ill", "well"])[0].partition(":")[0]
    'Thin bright strokes are in 100 % of the photos of ill and in 0 % of those of well'
    """
    large = np.flatnonzero(np.bincount(labels, minlength=len(classes)) >= ENOUGH)
    chosen = np.isin(labels, large)
    marked, labels = pixels[chosen] >= STROKES, labels[chosen]
    if len(large) < 2:
        return []

    def shares(marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        return np.array([marked[labels == label].mean() for label in large])

    found, rng = shares(marked), np.random.default_rng(0)
    if np.ptp(found) < EXCESS:
        return []
    by_chance = np.array([np.ptp(shares(rng.permutation(marked))) for _ in range(PERMUTATIONS)])
    if (by_chance >= np.ptp(found)).mean() > LEVEL:
        return []
    most, fewest = classes[large[found.argmax()]], classes[large[found.argmin()]]
    return [
        f"Thin bright strokes are in {100 * found.max():.0f} % of the photos of {most} and in {100 * found.min():.0f} "
        f"% of those of {fewest}: burnt-in letters or calipers may reveal the class."
    ]
