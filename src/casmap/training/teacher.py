"""The teacher: what Algorithm 1's masks and the label's class activation maps agree on, photo by photo.

t = sqrt(m(x) M_y(x)), each of the two and then their mean stretched to 0..1; a pixel counts from CUT on, softly.

A mapping of Algorithm 1 marks whole objects, but much around small ones; a class activation map of a large picture,
told the label, knows where the object is, but marks its most telling part. They err on different photos:
docs/experiments.md.
"""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate, relu

from casmap.atomic import write_whole
from casmap.data.batches import READERS
from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.errors import UserError
from casmap.model.activation import class_activation
from casmap.model.network import SaliencyNetwork
from casmap.training.recipes import Recipe
from casmap.training.run import Run

GRID = 64  # a taught mask has so many rows and columns, whatever the photo's shape
BATCH = 16  # photos that the networks see at a time
FILE = 256  # masks in a file: what a killed run loses at most
FLOOR = 0.05  # of each factor: where one of the two says nothing at all, the other still counts
CUT = 0.3  # share of the largest value from which on a pixel belongs to the object


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
        starts = range(0, len(self.wanted), FILE)
        with run.progress("The teacher's masks", 0, len(starts)) as advance:
            for start in starts:
                path = self.folder / f"{start // FILE:06}.npy"
                if not (run.resumed and path.exists()):
                    chosen = self.wanted[start : start + FILE]
                    content = io.BytesIO()
                    np.save(content, np.concatenate(list(_taught(chosen, photos, network, recipe, run.device))))
                    write_whole(path, content.getvalue())
                try:
                    self._files.append(np.load(path, mmap_mode="r"))
                except (OSError, ValueError) as error:
                    raise UserError(f"{path} is damaged; without it, its masks are made anew.") from error
                advance("")
        return self


def _taught(
    chosen: npt.NDArray[np.int64], photos: PhotoSet, network: SaliencyNetwork, recipe: Recipe, device: torch.device
) -> Iterator[npt.NDArray[np.uint8]]:
    """Taught masks (n, 64, 64) of the photos chosen, a batch at a time; photos are read while the networks work."""
    mean, std = (np.array(numbers, np.float32) * 255 for numbers in (network.mean, network.std))
    sizes = (recipe.early_size, recipe.teacher_size)

    def squares(index: np.int64) -> list[npt.NDArray[np.uint8]]:
        photo = photos.image(int(index))
        return [resize(photo, size, "squash") for size in sizes]

    with ThreadPoolExecutor(READERS) as pool, torch.no_grad():
        waiting = pool.map(squares, chosen)
        for start in range(0, len(chosen), BATCH):
            labels = torch.from_numpy(photos.labels[chosen[start : start + BATCH]]).to(device)
            seen = [next(waiting) for _ in labels]
            small, large = (
                torch.from_numpy((np.stack(pictures) - mean) / std).permute(0, 3, 1, 2).to(device)
                for pictures in zip(*seen, strict=True)
            )
            taught = agreement(network(small)[0], class_activation(network.encoder, large, labels)[:, None])
            yield (255 * taught).round().byte().cpu().numpy()


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
