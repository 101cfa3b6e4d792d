"""The interface of every set of photos: numbered photos with classes; and sets derived from other sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt

from casmap.errors import UnreadableImage, UserError, option


@dataclass(frozen=True)
class Annotation:
    """The annotation of one photo besides its class, in the photo's pixels; only evaluation uses it.

    boxes: (n, 4) float, the edges x0, y0, x1, y1 of the objects of the photo's class: x1 - x0 is the width.
    mask: (H, W) uint8, 0 background, 255 object, 128 not counted; or None.
    parts: (P, H, W) bool, the visible pixels of each part that is sufficient to identify the class; or None.
    edited: the number of boxes that do not fit the outlines of which the mask is drawn (`regions.box_was_edited`).
    """

    boxes: npt.NDArray[np.float64]
    mask: npt.NDArray[np.uint8] | None = None
    parts: npt.NDArray[np.bool_] | None = None
    edited: int = 0


class PhotoSet(Protocol):
    """Photos with class labels and, for some sets, annotations."""

    classes: list[str]
    names: list[str]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Return photo number `index`: (H, W, 3) RGB.

        least: the photo may be returned smaller, with a shorter side of at least this length.
        """
        ...

    def annotation(self, index: int) -> Annotation | None:
        """Return the annotation of photo number `index`, or None."""
        return None


class Subset(PhotoSet):
    """Chosen photos of a set; the classes are those of the chosen photos, in their order.

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
        shards = getattr(photos, "shards", None)
        self.shards = None if shards is None else shards[chosen]

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Return chosen photo number `index`: (H, W, 3) RGB."""
        return self.photos.image(int(self.chosen[index]), least)

    def annotation(self, index: int) -> Annotation | None:
        """Return the annotation of chosen photo number `index`, or None."""
        return self.photos.annotation(int(self.chosen[index]))


def of_classes(photos: PhotoSet, classes: Sequence[str]) -> Subset:
    """Return the photos of these classes.

    >>> from casmap.data.scenes import Scenes
    >>> of_classes(Scenes(classes=3, photos=6), ["class-02"]).names
    ['class-02/plain-96-0-00002.png', 'class-02/plain-96-0-00005.png']
    """
    labels = [label for label, name in enumerate(photos.classes) if name in set(classes)]
    return Subset(photos, np.flatnonzero(np.isin(photos.labels, labels)))


def few_of_each(photos: PhotoSet, count: int, seed: int) -> Subset:
    """Draw `count` random photos of each class, or all of a class that has fewer.

    With the same seed, a larger count gives the same photos and more.

    >>> from casmap.data.scenes import Scenes
    >>> np.bincount(few_of_each(Scenes(classes=3, photos=11), 2, seed=0).labels).tolist()
    [2, 2, 2]
    """
    order = np.random.default_rng(seed).permutation(len(photos))
    return Subset(photos, np.sort(order[ranks_in_class(photos.labels[order]) < count]))


def ranks_in_class(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many items with the same label come before each item: (N,) -> (N,).

    >>> ranks_in_class(np.array([0, 1, 0, 0]))
    array([0, 0, 1, 2])
    """
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    ranks = np.empty_like(labels)
    ranks[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


class Readable(PhotoSet):
    """A set that replaces each unreadable photo by another photo of its class, up to the share `limit` of photos.

    The replacement depends only on the photos, so a resumed run sees the same photos.
    skipped: the error message of each unreadable photo, by its number.
    """

    def __init__(self, photos: PhotoSet, limit: float = 0.01) -> None:
        self.photos, self.limit = photos, limit
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels
        self.shards = getattr(photos, "shards", None)
        self.skipped: dict[int, str] = {}
        self._replacement: dict[int, int] = {}
        self._lock = Lock()  # photos are read in threads

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Return photo number `index`, or the next readable photo of its class: (H, W, 3) RGB."""
        try:
            return self.photos.image(self._replacement.get(index, index), least)
        except UnreadableImage as error:
            self._skip(index, error)
        same = np.flatnonzero(self.labels == self.labels[index])  # of its class, starting after it:
        for other in np.roll(same, -int(np.searchsorted(same, index)) - 1)[:-1].tolist():
            try:
                image = self.photos.image(other, least)
            except UnreadableImage as error:
                self._skip(other, error)
            else:
                self._replacement[index] = other
                return image
        raise UserError(f"No photo of the class {self.classes[self.labels[index]]!r} can be read.")

    def annotation(self, index: int) -> Annotation | None:
        """Return the annotation of photo number `index`, or None."""
        return self.photos.annotation(index)

    def skipped_summary(self) -> str:
        """Return a sentence about the skipped photos."""
        count, first = len(self.skipped), [self.names[index] for index in sorted(self.skipped)[:5]]
        more = f" and {count - len(first)} more" if count > len(first) else ""
        return f"{count} of {len(self)} photos could not be read: {', '.join(first)}{more}."

    def _skip(self, index: int, error: UnreadableImage) -> None:
        with self._lock:
            self.skipped[index] = str(error)
            count = len(self.skipped)
        if count > self.limit * len(self):
            many = f"{count} of {len(self)} photos cannot be read, more than the limit of {self.limit:.3g} of them"
            raise UserError(f"{many} ({option('unreadable')}); the last: {error}") from error
