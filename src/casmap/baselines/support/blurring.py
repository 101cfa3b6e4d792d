"""A Gaussian blur, separable in columns and rows, with which several baselines erase pixels."""

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad


def blur(maps: Tensor, deviation: float) -> Tensor:
    """Blur maps (N, C, H, W) with a Gaussian kernel of this standard deviation in pixels; the border is mirrored.

    >>> blur(torch.ones(1, 1, 8, 8), 2.0).round(decimals=4).unique()
    tensor([1.])
    """
    channels, height, width = maps.shape[-3:]
    for dim, side in ((2, height), (3, width)):
        reach = min(round(3 * deviation), side - 1)  # reflect padding cannot be wider
        steps = torch.arange(-reach, reach + 1, device=maps.device)
        kernel = torch.exp(-0.5 * (steps / deviation) ** 2)
        shape = (1, 1, -1, 1) if dim == 2 else (1, 1, 1, -1)
        edges = (0, 0, reach, reach) if dim == 2 else (reach, reach, 0, 0)
        weights = (kernel / kernel.sum()).view(shape).expand(channels, -1, -1, -1)
        maps = conv2d(pad(maps, edges, mode="reflect"), weights, groups=channels)
    return maps
