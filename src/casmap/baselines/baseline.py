"""The one protocol of all rivals: a batch of photos and the class to explain in, maps out."""

from typing import Protocol

import torch
from torch import Tensor

from casmap.models.classifier import Classifier


class Peer(Protocol):
    """A method that explains a classifier."""

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Normalised images (N, 3, H, W) and classes (N,) -> maps (N, h, w), of any scale."""
        ...


def unit(maps: Tensor) -> Tensor:
    """Stretch each map (N, h, w) to 0..1; a flat one becomes 0.

    >>> unit(torch.tensor([[[1.0, 3.0]], [[2.0, 2.0]]])).tolist()
    [[[0.0, 1.0]], [[0.0, 0.0]]]
    """
    above = maps - maps.amin(dim=(1, 2), keepdim=True)
    return above / above.amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)
