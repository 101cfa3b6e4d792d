"""Grow a mask from its seeds: a linear classifier of pixels, trained anew for each photo.

A mask is sure of some pixels, the seeds: the head of a dog, the lawn at the border. It is unsure of the dog's legs. In
the features of the encoder the legs are closer to the head than to the lawn. So each photo trains a classifier of its
pixels on the seeds, and this classifier decides about all pixels. No label is used.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate

GRID = 48  # rows and columns of pixels that are classified
OBJECT, BACKGROUND = 0.8, 0.15  # seeds: at least and at most this share of the mask's highest values
HIGHEST = 0.99  # the quantile that stands for the highest values
STRIDES = (8, 16)  # of the stages used: finer ones know colours and edges, coarser ones blur the outline
LAMBDA = 0.04  # weight of |w|²


def grow(masks: Tensor, stages: Sequence[Tensor], side: int) -> Tensor:
    """Grow masks (N, h, w) from their seeds: (N, 48, 48).

    stages: of the images, each (N, C_i, h_i, w_i). side: of the images, in pixels.

    For each photo, φ(p) are the features of pixel p, y(p) is ½ for seeds of the object and -½ for seeds of the
    background, and w minimises the mean over seeds of (w · φ(p) - y(p))² + λ |w|², where both kinds of seeds have the
    same weight and the mean of φ over the seeds is 0. The grown mask is ½ + w · φ(p), cut to 0..1. A mask without seeds
    of both kinds stays as it is.

    >>> mask = torch.tensor([[[1.0, 0.5, 0.5, 0.0]]])
    >>> features = torch.tensor([[[[2.0, 2.0, -2.0, -2.0]]]])  # the second pixel is like the first, the third not
    >>> grow(mask, [features], side=32)[0, 0, [0, 12, 35, 47]].round()
    tensor([1., 1., 0., 0.])
    """
    masks = interpolate(masks[:, None], (GRID, GRID), mode="bilinear", antialias=True).flatten(1)
    high = masks.quantile(HIGHEST, dim=1, keepdim=True)
    kinds = [one.to(masks.dtype) for one in ((masks >= OBJECT * high) & (masks > 0), masks <= BACKGROUND * high)]
    has_seeds = (kinds[0].sum(dim=1) > 0) & (kinds[1].sum(dim=1) > 0)
    halves = [one / one.sum(dim=1, keepdim=True).clamp_min(1) / 2 for one in kinds]
    weights, y = halves[0] + halves[1], (halves[0] - halves[1]) / 2  # y is already weighted
    phi = pixel_features(stages, side)
    phi = phi - torch.einsum("np,npk->nk", weights, phi)[:, None]
    covariance = torch.einsum("np,npk,npl->nkl", weights, phi, phi)
    ridge = LAMBDA * torch.eye(phi.shape[2], dtype=phi.dtype, device=phi.device)
    w = torch.linalg.solve(covariance + ridge, torch.einsum("np,npk->nk", y, phi))
    grown = (0.5 + torch.einsum("npk,nk->np", phi, w)).clamp(0, 1)
    return torch.where(has_seeds[:, None], grown, masks).view(-1, GRID, GRID)


def pixel_features(stages: Sequence[Tensor], side: int) -> Tensor:
    """The features of each pixel (N, 48 · 48, K): stages of strides 8 and 16, each centred and with mean norm 1.

    An encoder that has no such stages gives all its stages.

    >>> pixel_features([torch.rand(2, 3, 8, 8), torch.rand(2, 5, 4, 4), torch.rand(2, 9, 2, 2)], side=64).shape
    torch.Size([2, 2304, 8])
    """
    used = [stage for stage in stages if STRIDES[0] <= side / stage.shape[-1] <= STRIDES[1]] or stages
    parts = []
    for stage in used:
        pixels = interpolate(stage, (GRID, GRID), mode="bilinear").flatten(2).transpose(1, 2)
        centred = pixels - pixels.mean(dim=1, keepdim=True)
        parts.append(centred / centred.norm(dim=2).mean(dim=1)[:, None, None].clamp_min(1e-6))
    return torch.cat(parts, dim=2)
