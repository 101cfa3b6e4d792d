"""The one protocol of all rivals: a batch of photos and the class to explain in, maps out."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from casmap.model.classifier import Classifier


class Peer(Protocol):
    """A method that explains a classifier."""

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Normalised images (N, 3, H, W) and classes (N,) -> maps (N, h, w), of any scale."""
        ...


class Explained:
    """A classifier and a method that explains it, as a system to be measured: masks in 0..1, and the class it sees.

    asks_class: explain the true class; else the one that the classifier sees. knows: its classes are the photos'.
    """

    def __init__(self, classifier: Classifier, peer: Peer, asks_class: bool, knows: bool = True) -> None:
        self.classifier, self.peer = classifier.eval().requires_grad_(False), peer
        self.asks_class, self.knows = asks_class, knows

    def __call__(
        self, pictures: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64] | None]:
        """Pictures (N, S, S, 3) and their classes (N,) -> masks (N, S, S) and the classes seen (N,), if it knows."""
        mean, std = (np.array(numbers, np.float32) * 255 for numbers in (self.classifier.mean, self.classifier.std))
        images = torch.from_numpy((pictures - mean) / std).permute(0, 3, 1, 2)
        with torch.no_grad():
            seen = self.classifier(images).argmax(dim=1)
        maps = self.peer(self.classifier, images, torch.from_numpy(labels) if self.asks_class else seen)
        masks = interpolate(unit(maps)[:, None], pictures.shape[1:3], mode="bilinear", align_corners=False)
        return masks[:, 0].numpy(), seen.numpy() if self.knows else None


def unit(maps: Tensor) -> Tensor:
    """Stretch each map (N, h, w) to 0..1; a flat one becomes 0.

    >>> unit(torch.tensor([[[1.0, 3.0]], [[2.0, 2.0]]])).tolist()
    [[[0.0, 1.0]], [[0.0, 0.0]]]
    """
    above = maps - maps.amin(dim=(1, 2), keepdim=True)
    return above / above.amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)
