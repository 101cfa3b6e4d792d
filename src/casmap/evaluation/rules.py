"""How the authors of each baseline turn a map into a box: maps and images in, localization errors out."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from casmap.evaluation.evaluate import Predictions, own_alpha_errors
from casmap.evaluation.localization import localization_error
from casmap.inference.components import Binary, largest_component, tight_box

ImageArray = npt.NDArray[np.uint8]
Map = npt.NDArray[np.floating]
NO_RECTANGLE = (0, 0, 0, 0)  # grabCut ignores it with a mask


@dataclass(frozen=True)
class Threshold:
    """A rule that handles one photo at a time.

    description: the pixels that it keeps, in words.
    all_components: the box encloses all kept pixels, not only the largest component.
    """

    description: str
    keep: Callable[[Map, ImageArray], Binary]
    all_components: bool = False

    def box(self, saliency: Map, image: ImageArray) -> tuple[int, int, int, int] | None:
        """The box of a map (H, W) of an image (H, W, 3)."""
        kept = self.keep(saliency, image)
        return tight_box(kept if self.all_components else largest_component(kept))

    def errors(self, predictions: Predictions, images: ImageArray) -> npt.NDArray[np.float64]:
        """LE of each photo; images: (N, S, S, 3)."""
        with ThreadPoolExecutor() as pool:  # a graph cut takes a tenth of a second
            boxes = list(pool.map(self.box, predictions.masks, images))
        return localization_error(boxes, [truth.boxes for truth in predictions.truths])


@dataclass(frozen=True)
class MeanThreshold:
    """m >= alpha mean m, a box around all of it, alpha chosen on the other half: Fong & Vedaldi's rule for themselves
    and for the methods they compare with.
    """

    description: str = "m >= alpha mean m, box around all components, alpha from 0, 0.5, ... 10 on the other half"
    alphas: tuple[float, ...] = tuple(0.5 * step for step in range(21))

    def errors(self, predictions: Predictions, images: ImageArray) -> npt.NDArray[np.float64]:
        """LE of each photo."""
        return own_alpha_errors(predictions, self.alphas, all_components=True)[0]


Rule = Threshold | MeanThreshold


def above_share(share: float) -> Threshold:
    """Pixels with at least this share of the map's largest value (CAM: 0.2, Grad-CAM: 0.15).

    >>> above_share(0.5).keep(np.array([[0.0, 0.4, 0.8]]), np.zeros((1, 3, 3), np.uint8)).tolist()
    [[False, True, True]]
    """
    description = f"m >= {share:g} max m"
    return Threshold(description, lambda found, _: np.asarray((found >= share * found.max()) & (found > 0)))


def above(level: float) -> Threshold:
    """Pixels above a fixed level, box around all of them (Dabkowski & Gal: 0.5).

    >>> above(0.5).keep(np.array([[0.5, 0.6]]), np.zeros((1, 2, 3), np.uint8)).tolist()
    [[False, True]]
    """
    description = f"m > {level:g}, box around all components"
    return Threshold(description, lambda found, _: np.asarray(found > level), all_components=True)


def energy(share: float) -> Threshold:
    """The fewest pixels that hold this share of the map's sum (Cao et al.: 0.95).

    >>> energy(0.7).keep(np.array([[1.0, 5.0, 4.0]]), np.zeros((1, 3, 3), np.uint8)).tolist()
    [[False, True, True]]
    """

    def keep(found: Map, _: ImageArray) -> Binary:
        descending = np.sort(found, axis=None)[::-1]
        needed = int(np.searchsorted(np.cumsum(descending), share * descending.sum())) + 1
        return np.asarray((found >= descending[min(needed, descending.size) - 1]) & (found > 0))

    return Threshold(f"the fewest pixels with {share:.0%} of the map's sum", keep)


def grab_cut(foreground: float = 0.95, background: float = 0.3) -> Threshold:
    """A graph cut by colour, seeded with the pixels above and below two quantiles (Simonyan et al.: 0.95 and 0.3).

    >>> image = np.zeros((40, 40, 3), np.uint8)
    >>> image[10:30, 10:30] = 255
    >>> found = 30 - np.hypot(*np.mgrid[-20:20, -20:20])
    >>> grab_cut().box(found, image)
    (10, 10, 30, 30)
    """

    def keep(found: Map, image: ImageArray) -> Binary:
        high, low = np.quantile(found, (foreground, background))
        inside, outside = (found > low) & (found >= high), found <= low
        if not inside.any() or not outside.any():
            return np.asarray(found >= high)
        seeds = np.concatenate([image[outside], image[inside]])[None]
        sides = np.array([[cv2.GC_BGD] * int(outside.sum()) + [cv2.GC_FGD] * int(inside.sum())], np.uint8)
        labels = np.full(found.shape, cv2.GC_PR_BGD, np.uint8)
        labels[outside], labels[inside] = cv2.GC_BGD, cv2.GC_FGD
        colours = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.setRNGSeed(0)  # grabCut initialises its colour models at random
        cv2.grabCut(seeds, sides, NO_RECTANGLE, *colours, 0, cv2.GC_INIT_WITH_MASK)  # fits both colour models
        cut = cv2.grabCut(np.ascontiguousarray(image), labels, NO_RECTANGLE, *colours, 1, cv2.GC_EVAL_FREEZE_MODEL)[0]
        return np.isin(cut, (cv2.GC_FGD, cv2.GC_PR_FGD))

    return Threshold("graph cut by colour", keep)
