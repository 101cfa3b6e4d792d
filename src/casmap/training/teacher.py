"""The teacher: what Algorithm 1's masks and the label's class activation maps agree on, photo by photo.

t = sqrt(m(x) M_y(x)), each of the two and then their mean stretched to 0..1; a pixel counts from a cut on, softly.
The cut is chosen so that the taught masks mark as much of the photos as Algorithm 1's do.

A mapping of Algorithm 1 marks whole objects, but much around small ones; a class activation map of a large picture,
told the label, knows where the object is, but marks its most telling part. They err on different photos:
docs/experiments.md.
"""

import io
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate, relu

from casmap.data.batches import normalised, whole_photos
from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.models.class_activation import class_activation
from casmap.models.network import SaliencyNetwork
from casmap.training.recipes import Recipe
from casmap.training.run import Run

GRID = 64  # a taught mask has so many rows and columns, whatever the photo's shape
BATCH = 16  # photos that the networks see at a time
FILE = 256  # masks in a file: what a killed run loses at most
FLOOR = 0.05  # of each factor: where one of the two says nothing at all, the other still counts
CUT_ON = 256  # photos on which the cut is chosen


class TaughtMasks:
    """The taught masks (64, 64) uint8 of the photos wanted, by the photos' numbers; on disk, not in memory.

    wanted: (n,) numbers of photos, rising.
    """

    def __init__(self, folder: Path, wanted: npt.NDArray[np.int64]) -> None:
        self.folder, self.wanted = folder, wanted
        self._files: list[npt.NDArray[np.uint8]] = []

    def __getitem__(self, photo: int) -> npt.NDArray[np.uint8]:
        file, place = divmod(int(np.searchsorted(self.wanted, photo)), FILE)
        mask: npt.NDArray[np.uint8] = self._files[file][place]
        return mask

    def make(self, photos: PhotoSet, network: SaliencyNetwork, recipe: Recipe, run: Run) -> "TaughtMasks":
        """Make the masks of whole photos, or of a resumed run those that are not there yet."""

        def agreed(chosen: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
            found = zip(*_agreed(chosen, photos, network, recipe, run.device), strict=True)
            agreements, areas = (torch.cat(parts) for parts in found)
            return agreements, areas

        starts = range(0, len(self.wanted), FILE)
        with run.progress("The teacher's masks", 0, len(starts)) as advance:
            cut: float | None = None
            for start in starts:
                path = self.folder / f"{start // FILE:06}.npy"
                if not (run.resumed and path.exists()):
                    if cut is None:
                        sample, areas = agreed(self.wanted[:: math.ceil(len(self.wanted) / CUT_ON)])
                        cut = fitting_cut(sample, float(areas.mean()))
                    masks = cut_out(agreed(self.wanted[start : start + FILE])[0], cut)
                    content = io.BytesIO()
                    np.save(content, (255 * masks).round().byte().cpu().numpy())
                    write_whole(path, content.getvalue())
                try:
                    self._files.append(np.load(path, mmap_mode="r"))
                except (OSError, ValueError) as error:
                    raise UserError(f"{path} is damaged; without it, its masks are made anew.") from error
                advance("" if cut is None else f"cut at {cut:.2f}")
        return self


def _agreed(
    chosen: npt.NDArray[np.int64], photos: PhotoSet, network: SaliencyNetwork, recipe: Recipe, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Agreements (n, 64, 64) on the photos chosen and the areas (n,) of Algorithm 1's masks, a batch at a time."""
    sizes = (recipe.early_size, recipe.teacher_size)
    with torch.no_grad():
        for labels, pictures in whole_photos(photos, chosen, sizes, BATCH):
            small, large = (normalised(squares, network.mean, network.std).to(device) for squares in pictures)
            masks = network(small)[0]
            activations = class_activation(network.encoder, large, labels.to(device))[:, None]
            yield agreement(masks, activations), masks.mean(dim=(1, 2, 3))


def agreement(mask: Tensor, activation: Tensor) -> Tensor:
    """Masks (N, 1, H, W) in 0..1 and class activation maps (N, 1, h, w) -> agreements (N, 64, 64), stretched to 0..1.

    >>> half = torch.tensor([[[[0.0, 1.0]]]])
    >>> agreement(half, 3 * half)[0, 0, [0, -1]]
    tensor([0., 1.])
    """
    m = interpolate(mask, (GRID, GRID), mode="bilinear", antialias=True)
    cam = relu(interpolate(activation, (GRID, GRID), mode="bilinear"))
    both = ((_unit(m) + FLOOR) * (_unit(cam) + FLOOR)).sqrt()
    return _unit(both)[:, 0]


def cut_out(agreed: Tensor, cut: float) -> Tensor:
    """Taught masks, of the same shape: half at the cut, all from one and a half times the cut on.

    >>> cut_out(torch.tensor([0.1, 0.2, 0.3, 0.9]), 0.2)
    tensor([0.0000, 0.5000, 1.0000, 1.0000])
    """
    return (agreed / cut - 0.5).clamp(0, 1)


def fitting_cut(agreed: Tensor, area: float) -> float:
    """The cut at which the taught masks have this area in the mean, as near as 0.01 to 1 allow.

    >>> round(fitting_cut(torch.linspace(0, 1, 1001), 0.7), 3)
    0.3
    """
    low, high = 0.01, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if float(cut_out(agreed, middle).mean()) > area else (low, middle)
    return (low + high) / 2


def _unit(maps: Tensor) -> Tensor:
    above = maps - maps.amin(dim=(2, 3), keepdim=True)
    return above / above.amax(dim=(2, 3), keepdim=True).clamp_min(1e-6)
