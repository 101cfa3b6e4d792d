"""The annotated photos of a study, read once at one size, with their ground truth."""

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation, PhotoSet
from casmap.data.resizing import Policy, resize
from casmap.evaluation.evaluate import Predictions, annotated_indices, resized_truth

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crops:
    """Squares (N, S, S, 3) of photos, their names, classes (N,) and annotations."""

    names: list[str]
    images: npt.NDArray[np.uint8] = field(repr=False)
    labels: npt.NDArray[np.int64]
    truths: list[Annotation] = field(repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """The side of the images in pixels."""
        return int(self.images.shape[1])

    def predictions(self, chosen: Indices, masks: npt.NDArray[np.floating], predicted: Indices | None) -> Predictions:
        """Masks of the chosen photos with their ground truth; predicted: classes (N,) of all photos, or None."""
        correct = np.full(len(chosen), np.nan) if predicted is None else (predicted == self.labels)[chosen]
        return Predictions([self.names[i] for i in chosen], masks, correct, [self.truths[i] for i in chosen])

    @cached_property
    def shuffled(self) -> Indices:
        """All indices in a random order that depends on the photos' names only."""
        # Not the hash of `is_tuning`: otherwise the first ones would all be in one half.
        hashes = [hashlib.sha256(os.fsencode(f"few of {name}")).hexdigest() for name in self.names]
        return np.argsort(hashes, kind="stable")

    def few(self, most: int | None) -> Indices:
        """The first `most` of the shuffled indices, sorted; all if `most` is None."""
        return np.sort(self.shuffled[:most])


def read_crops(photos: PhotoSet, size: int, policy: Policy = "crop") -> Crops:
    """Read all annotated photos, made square by a policy, by default the paper's first."""
    indices = annotated_indices(photos)
    images = np.empty((len(indices), size, size, 3), np.uint8)
    truths = []
    for place, index in enumerate(indices):
        image = photos.image(index)
        images[place] = resize(image, size, policy)
        truths.append(resized_truth(photos, index, image.shape, size, policy))
    return Crops([photos.names[i] for i in indices], images, photos.labels[indices], truths)
