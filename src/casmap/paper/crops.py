"""The photos of a study, read once: every annotated one at one size, beside its truth."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation, PhotoSet
from casmap.data.resizing import resize
from casmap.evaluation.evaluate import Mapped, annotated, truth_of

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crops:
    """Central squares (N, S, S, 3) of photos, their names, classes (N,) and annotations."""

    names: list[str]
    pictures: npt.NDArray[np.uint8] = field(repr=False)
    labels: npt.NDArray[np.int64]
    truths: list[Annotation] = field(repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """The side of the pictures."""
        return int(self.pictures.shape[1])

    def mapped(self, chosen: Indices, masks: npt.NDArray[np.floating], sees: Indices | None) -> Mapped:
        """What a system marks in the chosen ones, to be measured; sees: the classes (N,) of all, if it tells any."""
        right = np.full(len(chosen), np.nan) if sees is None else (sees == self.labels)[chosen]
        return Mapped([self.names[i] for i in chosen], masks, right, [self.truths[i] for i in chosen])

    @cached_property
    def drawn(self) -> Indices:
        """Their numbers as if drawn by lot, always the same, whatever else there is: by a hash of the names."""
        # Not the hash by which names fall into halves: else all that are drawn first would be in one.
        hashes = [hashlib.sha256(f"few of {name}".encode()).hexdigest() for name in self.names]
        return np.argsort(hashes, kind="stable")

    def few(self, most: int | None) -> Indices:
        """Which to take where not all can be had: those drawn first, in their order.

        >>> crops = Crops(["b", "a", "c"], np.zeros((3, 2, 2, 3), np.uint8), np.zeros(3, np.int64), [])
        >>> len(crops.few(2)), crops.few(None).tolist()
        (2, [0, 1, 2])
        """
        return np.sort(self.drawn[:most])


def read_crops(photos: PhotoSet, size: int) -> Crops:
    """Read all annotated photos, as the paper's first policy crops them."""
    indices = annotated(photos)
    pictures = np.empty((len(indices), size, size, 3), np.uint8)
    truths = []
    for place, index in enumerate(indices):
        image = photos.image(index)
        pictures[place] = resize(image, size, "crop")
        truths.append(truth_of(photos, index, image.shape, size, "crop"))
    return Crops([photos.names[i] for i in indices], pictures, photos.labels[indices], truths)
