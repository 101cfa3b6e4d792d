"""The teacher: what Algorithm 1's masks and the label's class activation maps agree on, photo by photo.

t = sqrt(m(x) M_y(x)), as a share of its largest value; clear of doubt where it is far from CUT.

A mapping of Algorithm 1 marks whole objects, but much around small ones; a class activation map of a large picture,
told the label, knows where the object is, but marks its most telling part. They err on different photos:
docs/experiments.md.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.format import open_memmap
from torch import Tensor
from torch.nn.functional import interpolate, relu

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.errors import UserError
from casmap.model.activation import class_activation
from casmap.model.network import SaliencyNetwork
from casmap.training.recipes import Recipe
from casmap.training.run import Run

Masks = npt.NDArray[np.uint8]  # (N, 64, 64), 0 to 255
GRID = 64  # a taught mask has so many rows and columns, whatever the photo's shape
BATCH = 16
FLOOR = 0.05  # of each factor: where one of the two says nothing at all, the other still counts
CUT = 0.3  # share of the largest value from which on a pixel belongs to the object


def open_masks(path: Path, photos: int) -> Masks:
    """A file of so many taught masks, each 0 until it is made; it may be larger than memory."""
    shape = (photos, GRID, GRID)
    if not path.exists():
        return open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    try:
        masks: Masks = open_memmap(path, mode="r+")
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged; without it, its masks are made anew.") from error
    if masks.shape != shape or masks.dtype != np.uint8:
        raise UserError(f"{path} is not of this run; without it, its masks are made anew.")
    return masks


def make_masks(
    masks: Masks, wanted: npt.NDArray[np.int64], photos: PhotoSet, network: SaliencyNetwork, recipe: Recipe, run: Run
) -> None:
    """Fill in the taught masks of the photos `wanted`, whole ones, going on where a stopped run was."""
    filled = masks[wanted].any(axis=(1, 2))  # each that is made has its largest value somewhere
    done = len(wanted) if filled.all() else max(0, int(filled.argmin()) // BATCH - 1) * BATCH  # the last may be torn
    network = network.eval()
    with run.progress("The teacher's masks", done, len(wanted)) as advance:
        for start in range(done, len(wanted), BATCH):
            chosen = wanted[start : start + BATCH]
            pictures = [photos.image(int(index)) for index in chosen]
            labels = torch.from_numpy(photos.labels[chosen]).to(run.device)
            with torch.no_grad():
                mask = network(_normalised(pictures, recipe.size, network, run.device))[0]
                large = _normalised(pictures, recipe.teacher_size, network, run.device)
                activation = class_activation(network.encoder, large, labels)[:, None]
            masks[chosen] = (255 * agreement(mask, activation)).round().byte().cpu().numpy()
            for _ in chosen:
                advance("")


def agreement(mask: Tensor, activation: Tensor) -> Tensor:
    """Masks (N, 1, H, W) in 0..1 and class activation maps (N, 1, h, w) -> taught masks (N, 64, 64) in 0..1.

    >>> half = torch.tensor([[[[0.0, 1.0]]]])
    >>> agreement(half, 3 * half)[0, 0, [0, -1]]
    tensor([0., 1.])
    """
    m = interpolate(mask, (GRID, GRID), mode="bilinear", antialias=True)
    cam = relu(interpolate(activation, (GRID, GRID), mode="bilinear"))
    both = ((_unit(m) + FLOOR) * (_unit(cam) + FLOOR)).sqrt()
    return (_unit(both) / CUT - 0.5).clamp(0, 1)[:, 0]


def _unit(maps: Tensor) -> Tensor:
    above = maps - maps.amin(dim=(2, 3), keepdim=True)
    return above / above.amax(dim=(2, 3), keepdim=True).clamp_min(1e-6)


def _normalised(
    pictures: list[npt.NDArray[np.uint8]], size: int, network: SaliencyNetwork, device: torch.device
) -> Tensor:
    """Whole photos, squashed to squares, as the network wants them."""
    mean, std = (np.array(numbers, np.float32) * 255 for numbers in (network.mean, network.std))
    squares = np.stack([resize(picture, size, "squash") for picture in pictures])
    return torch.from_numpy((squares - mean) / std).permute(0, 3, 1, 2).to(device, torch.float32)
