"""Belief: where a classifier sees what it believes in, with no class asked for."""

import torch
from torch import Tensor, nn

BELIEF_CHANNELS = 4


def belief(stage: Tensor, features: Tensor, logits: Tensor, head: nn.Linear) -> Tensor:
    """A stage more for the decoder, from what the classifier has computed anyway.

    B(x, y) = sum_c p_c M_c(x, y): class activation maps, weighted by how likely each class is; and beside it the norm
    of the last stage. Each twice: as a share of its largest value, and standardised. No gradient passes.

    stage (N, J, h, w), features (N, K, h, w), logits (N, C), the linear head from K to C -> (N, 4, h, w).

    >>> belief(torch.rand(2, 6, 3, 3), torch.rand(2, 8, 3, 3), torch.zeros(2, 5), nn.Linear(8, 5)).shape
    torch.Size([2, 4, 3, 3])
    """
    with torch.no_grad():
        activation = torch.einsum("nkhw,nk->nhw", features, logits.softmax(dim=1) @ head.weight)
        strength = stage.norm(dim=1)
        return torch.stack([view(m) for m in (activation, strength) for view in (_share, _standard)], dim=1)


def _share(maps: Tensor) -> Tensor:
    """Of the largest value, photo by photo; what speaks against counts as nothing."""
    positive = maps.clamp_min(0)
    return positive / positive.amax(dim=(1, 2), keepdim=True).clamp_min(1e-6)


def _standard(maps: Tensor) -> Tensor:
    """Mean 0 and variance 1, photo by photo."""
    centred = maps - maps.mean(dim=(1, 2), keepdim=True)
    return centred / (centred.square().mean(dim=(1, 2), keepdim=True).sqrt() + 1e-4)
