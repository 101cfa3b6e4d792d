"""The one shape in which every data set is seen, numbered photos with their classes, and sets made of others."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt

from casmap.errors import UnreadableImage, UserError


@dataclass(frozen=True)
class Annotation:
    """What is known of one photo beside its class, in its own pixels; only evaluation looks at it.

    boxes: (n, 4) float x0, y0, x1, y1 of the objects of the photo's class, as edges: x1 - x0 is the width.
    mask: (H, W) uint8, 0 background, 255 object, 128 not counted; or None.
    parts: (P, H, W) bool, the visible pixels of each part that is sufficient to tell the class; or None.
    """

    boxes: npt.NDArray[np.float64]
    mask: npt.NDArray[np.uint8] | None = None
    parts: npt.NDArray[np.bool_] | None = None


class PhotoSet(Protocol):
    """Photos with class labels, and annotations where there are any."""

    classes: list[str]
    names: list[str]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index`: (H, W, 3) RGB.

        least: where it is to be shrunk anyway, it may come smaller, its shorter side no less than this.
        """
        ...

    def annotation(self, index: int) -> Annotation | None:
        """What is known of photo number `index`, or None."""
        return None


class Subset(PhotoSet):
    """Chosen photos of a set, whose classes are those that are left, in their order.

    >>> from casmap.data.scenes import Scenes
    >>> some = Subset(Scenes(classes=3, photos=6), np.array([1, 2, 4]))
    >>> some.classes, some.labels.tolist()
    (['class-01', 'class-02'], [0, 1, 0])
    """

    def __init__(self, photos: PhotoSet, chosen: npt.NDArray[np.int64]) -> None:
        self.photos, self.chosen = photos, chosen
        kept, labels = np.unique(photos.labels[chosen], return_inverse=True)
        self.classes = [photos.classes[label] for label in kept]
        self.names = [photos.names[index] for index in chosen]
        self.labels: npt.NDArray[np.int64] = labels.astype(np.int64)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index` of those chosen: (H, W, 3) RGB."""
        return self.photos.image(int(self.chosen[index]), least)

    def annotation(self, index: int) -> Annotation | None:
        """What is known of it, or None."""
        return self.photos.annotation(int(self.chosen[index]))


def of_classes(photos: PhotoSet, classes: Sequence[str]) -> Subset:
    """The photos of these classes.

    >>> from casmap.data.scenes import Scenes
    >>> of_classes(Scenes(classes=3, photos=6), ["class-02"]).names
    ['class-02/plain-96-0-00002.png', 'class-02/plain-96-0-00005.png']
    """
    labels = [label for label, name in enumerate(photos.classes) if name in set(classes)]
    return Subset(photos, np.flatnonzero(np.isin(photos.labels, labels)))


def few_of_each(photos: PhotoSet, count: int, seed: int) -> Subset:
    """So many photos of each class, drawn by lot; all of a class that has fewer.

    A greater count keeps those of a smaller one, and draws others beside them.

    >>> from casmap.data.scenes import Scenes
    >>> np.bincount(few_of_each(Scenes(classes=3, photos=11), 2, seed=0).labels).tolist()
    [2, 2, 2]
    """
    order = np.random.default_rng(seed).permutation(len(photos))
    ranks = np.empty(len(photos), np.int64)  # of a photo among those of its class, in the order drawn
    for label in range(len(photos.classes)):
        own = order[photos.labels[order] == label]
        ranks[own] = np.arange(len(own))
    return Subset(photos, np.flatnonzero(ranks < count))


class Readable(PhotoSet):
    """A set in which another photo of its class stands in for each of the share `limit` at most that cannot be read.

    Which one stands in depends on the photos alone, so that a run that is resumed sees the same.
    skipped: a sentence for each photo that could not be read, by its number.
    """

    def __init__(self, photos: PhotoSet, limit: float = 0.01) -> None:
        self.photos, self.limit = photos, limit
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels
        self.shards = getattr(photos, "shards", None)
        self.skipped: dict[int, str] = {}
        self._stand_in: dict[int, int] = {}
        self._lock = Lock()  # photos are read in threads

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index`, or the next of its class that can be read: (H, W, 3) RGB."""
        try:
            return self.photos.image(self._stand_in.get(index, index), least)
        except UnreadableImage as error:
            self._skip(index, error)
        same = np.flatnonzero(self.labels == self.labels[index])  # of its class, from the one after it on:
        for other in np.roll(same, -int(np.searchsorted(same, index)) - 1)[:-1].tolist():
            try:
                picture = self.photos.image(other, least)
            except UnreadableImage as error:
                self._skip(other, error)
            else:
                self._stand_in[index] = other
                return picture
        raise UserError(f"No photo of the class {self.classes[self.labels[index]]!r} can be read.")

    def annotation(self, index: int) -> Annotation | None:
        """What is known of photo number `index`, or None."""
        return self.photos.annotation(index)

    def told(self) -> str:
        """A sentence about those that were skipped; empty where none was."""
        if not self.skipped:
            return ""
        count, first = len(self.skipped), [self.names[index] for index in sorted(self.skipped)[:5]]
        more = f" and {count - len(first)} more" if count > len(first) else ""
        return f"{count} of {len(self)} photos could not be read and are left out: {', '.join(first)}{more}."

    def _skip(self, index: int, error: UnreadableImage) -> None:
        with self._lock:
            self.skipped[index] = str(error)
            count = len(self.skipped)
        if count > self.limit * len(self):
            many = f"{count} of {len(self)} photos cannot be read, more than {self.limit:.3g} of them"
            raise UserError(f"{many}; the last: {error}") from error
