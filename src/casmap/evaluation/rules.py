"""How authors make objects of maps: the rule of each paper, maps and pictures in, localization errors out."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from casmap.evaluation.evaluate import Mapped, own_alpha_errors
from casmap.evaluation.localization import localization_error
from casmap.inference.components import Binary, largest_component, tight_box

Picture = npt.NDArray[np.uint8]
Map = npt.NDArray[np.floating]
NOWHERE = (0, 0, 0, 0)


class Rule(Protocol):
    """A rule, and the words for it."""

    @property
    def words(self) -> str:
        """What it keeps."""

    def errors(self, mapped: Mapped, pictures: Picture) -> npt.NDArray[np.float64]:
        """LE of each photo; pictures: (N, S, S, 3)."""


@dataclass(frozen=True)
class Level:
    """A rule that looks at one photo at a time; `whole`: the box goes around all that it keeps, not only around the
    largest component.
    """

    words: str
    keep: Callable[[Map, Picture], Binary]
    whole: bool = False

    def box(self, found: Map, picture: Picture) -> tuple[int, int, int, int] | None:
        """The box of a map (H, W) of a picture (H, W, 3)."""
        kept = self.keep(found, picture)
        return tight_box(kept if self.whole else largest_component(kept))

    def errors(self, mapped: Mapped, pictures: Picture) -> npt.NDArray[np.float64]:
        """LE of each photo."""
        with ThreadPoolExecutor() as pool:  # a graph cut takes a tenth of a second
            boxes = list(pool.map(self.box, mapped.masks, pictures))
        return localization_error(boxes, [truth.boxes for truth in mapped.truths])


@dataclass(frozen=True)
class MeanLevel:
    """m >= alpha mean m, a box around all of it, alpha chosen on other photos: Fong & Vedaldi's, for others, too."""

    words: str = "m >= alpha mean m, all of it, alpha from 0, 0.5, ... 10 on the other half"
    alphas: tuple[float, ...] = tuple(0.5 * step for step in range(21))

    def errors(self, mapped: Mapped, pictures: Picture) -> npt.NDArray[np.float64]:
        """LE of each photo."""
        return own_alpha_errors(mapped, self.alphas, whole=True)[0]


def above_share(share: float) -> Level:
    """Pixels with at least this share of the map's largest value (CAM: 0.2, Grad-CAM: 0.15).

    >>> above_share(0.5).keep(np.array([[0.0, 0.4, 0.8]]), np.zeros((1, 3, 3), np.uint8)).tolist()
    [[False, True, True]]
    """
    return Level(f"m >= {share:g} max m", lambda found, _: np.asarray((found >= share * found.max()) & (found > 0)))


def above(level: float) -> Level:
    """Pixels above a fixed level, all of them (Dabkowski & Gal: 0.5).

    >>> above(0.5).keep(np.array([[0.5, 0.6]]), np.zeros((1, 2, 3), np.uint8)).tolist()
    [[False, True]]
    """
    return Level(f"m > {level:g}, all of it", lambda found, _: np.asarray(found > level), whole=True)


def energy(share: float) -> Level:
    """The fewest pixels that hold this share of the map's sum (Cao et al.: 0.95).

    >>> energy(0.7).keep(np.array([[1.0, 5.0, 4.0]]), np.zeros((1, 3, 3), np.uint8)).tolist()
    [[False, True, True]]
    """

    def keep(found: Map, _: Picture) -> Binary:
        falling = np.sort(found, axis=None)[::-1]
        needed = int(np.searchsorted(np.cumsum(falling), share * falling.sum())) + 1
        return np.asarray((found >= falling[min(needed, falling.size) - 1]) & (found > 0))

    return Level(f"{share:.0%} of the energy", keep)


def grab_cut(foreground: float = 0.95, background: float = 0.3) -> Level:
    """Colours of the pixels above and below two quantiles of the map, cut out (Simonyan et al.: 0.95 and 0.3).

    >>> picture = np.zeros((40, 40, 3), np.uint8)
    >>> picture[10:30, 10:30] = 255
    >>> found = 30 - np.hypot(*np.mgrid[-20:20, -20:20])
    >>> grab_cut().box(found, picture)
    (10, 10, 30, 30)
    """

    def keep(found: Map, picture: Picture) -> Binary:
        high, low = np.quantile(found, (foreground, background))
        inside, outside = (found > low) & (found >= high), found <= low
        if not inside.any() or not outside.any():
            return np.asarray(found >= high)
        seeds = np.concatenate([picture[outside], picture[inside]])[None]
        sides = np.array([[cv2.GC_BGD] * int(outside.sum()) + [cv2.GC_FGD] * int(inside.sum())], np.uint8)
        labels = np.full(found.shape, cv2.GC_PR_BGD, np.uint8)
        labels[outside], labels[inside] = cv2.GC_BGD, cv2.GC_FGD
        colours = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.setRNGSeed(0)  # its mixtures of colours begin at random
        cv2.grabCut(seeds, sides, NOWHERE, *colours, 0, cv2.GC_INIT_WITH_MASK)  # both mixtures, from the seeds alone
        cut = cv2.grabCut(np.ascontiguousarray(picture), labels, NOWHERE, *colours, 1, cv2.GC_EVAL_FREEZE_MODEL)[0]
        return np.isin(cut, (cv2.GC_FGD, cv2.GC_PR_FGD))

    return Level("graph cut of colours", keep)
