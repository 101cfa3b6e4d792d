"""Some of the photos of a set: of some classes only, or a few of each class."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation, PhotoSet


class Subset:
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

    def __len__(self) -> int:
        return len(self.chosen)

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
