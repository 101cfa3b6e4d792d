"""Batches for training. A batch depends only on the seed and the step, so a run can be resumed at any step."""

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import islice

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.data.shards import shard_order
from casmap.errors import UserError

READERS = 2  # threads that open photos
AHEAD = 2  # batches prepared while the networks process one
WINDOW = 256  # whole photos kept in memory


class Batches:
    """Random crops of photos, normalised: images (N, 3, size, size) and labels (N,), for any range of steps.

    An epoch covers `share` of the photos, drawn at random for each epoch. rank, ranks: if several processes share each
    batch, this one makes every ranks-th image of it. Photos are read in threads: decoding and resizing release
    Python's lock, and the error of an unreadable photo is raised unchanged.
    """

    def __init__(
        self, photos: PhotoSet, size: int, batch: int, mean: tuple[float, ...], std: tuple[float, ...], seed: int = 0,
        share: float = 1.0, smallest_crop: float = 0.08, flip: bool = True, threads: int = READERS,
        rank: int = 0, ranks: int = 1,
    ) -> None:  # fmt: skip
        self.photos, self.size, self.seed, self.smallest_crop, self.flip = photos, size, seed, smallest_crop, flip
        self.covered = min(len(photos), max(batch, int(len(photos) * share)))  # at least one batch
        self.batch = min(batch, self.covered)
        if self.batch % ranks:
            raise UserError(f"A batch of {self.batch} photos cannot be shared equally by {ranks} processes.")
        self.places = range(rank, self.batch, ranks)  # in the batch that this process makes
        self.threads = threads
        # Shuffling a million photos is slow; the steps prepared ahead may belong to the next epoch.
        self._order = lru_cache(maxsize=2)(self._shuffled)
        self.least = math.ceil(size / math.sqrt(smallest_crop))  # shorter side of a photo, so that no crop is enlarged
        self.normalise = partial(normalised, mean=mean, std=std)

    def indices(self, step: int) -> npt.NDArray[np.int64]:
        """Return the indices of the photos in the batch of this step."""
        epoch, place = divmod(step, self.covered // self.batch)
        return self._order(epoch)[place * self.batch : (place + 1) * self.batch]

    def between(self, start: int, stop: int, device: torch.device | str = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of the steps start, ..., stop - 1."""
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: deque[list[Future[npt.NDArray[np.uint8]]]] = deque()
            for step in range(start, stop + AHEAD):
                if step < stop:
                    indices = self.indices(step)
                    waiting.append([pool.submit(self._crop, int(indices[n]), step, n) for n in self.places])
                if step >= start + AHEAD:
                    crops = np.stack([future.result() for future in waiting.popleft()])
                    labels = self.photos.labels[self.indices(step - AHEAD)[self.places]]
                    yield self.normalise(crops).to(device), torch.from_numpy(labels).to(device)

    def _shuffled(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return all photos in the order of an epoch; photos of one shard stay close to each other."""
        rng = np.random.default_rng((self.seed, 1, epoch))
        shards = getattr(self.photos, "shards", None)
        return rng.permutation(len(self.photos)) if shards is None else shard_order(shards, rng)

    def _crop(self, index: int, step: int, place: int) -> npt.NDArray[np.uint8]:
        rng = np.random.default_rng((self.seed, 2, step, place))
        crop = _random_resized_crop(self.photos.image(index, self.least), self.size, rng, self.smallest_crop)
        return crop[:, ::-1] if self.flip and rng.random() < 0.5 else crop


def _random_resized_crop(
    image: npt.NDArray[np.uint8], size: int, rng: np.random.Generator, smallest: float
) -> npt.NDArray[np.uint8]:
    """Crop a random part of an image with an aspect ratio of 3:4 to 4:3, and resize it to (size, size, 3).

    The crop covers at least the share `smallest` of the image, unless the image is too long and narrow.
    """
    height, width = image.shape[:2]
    for _ in range(10):
        area = height * width * rng.uniform(smallest, 1)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w = h = min(height, width)
    top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
    interpolation = cv2.INTER_AREA if h > size else cv2.INTER_LINEAR
    crop = image[top : top + h, left : left + w]
    return np.asarray(cv2.resize(crop, (size, size), interpolation=interpolation), np.uint8)


def whole_photos(
    photos: PhotoSet, chosen: npt.NDArray[np.int64], sizes: tuple[int, ...], batch: int
) -> Iterator[tuple[Tensor, list[npt.NDArray[np.uint8]]]]:
    """Yield the chosen photos in batches: labels (n,), and for each size the whole photos as (n, size, size, 3).

    The photos are squashed, not cropped. They are read in threads, at most WINDOW of them ahead.
    """

    def squares(index: np.int64) -> list[npt.NDArray[np.uint8]]:
        photo = photos.image(int(index), max(sizes))
        return [resize(photo, size, "squash") for size in sizes]

    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(chosen), WINDOW):
            window = chosen[start : start + WINDOW]
            labels, resized = iter(photos.labels[window]), pool.map(squares, window)
            while images := list(islice(resized, batch)):
                batch_labels = np.array(list(islice(labels, batch)))
                yield torch.from_numpy(batch_labels), [np.stack(same_size) for same_size in zip(*images, strict=True)]


def normalised(images: npt.NDArray[np.uint8], mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Convert images (N, H, W, 3) to network input (N, 3, H, W) with zero mean: a masked pixel has the mean colour.

    >>> normalised(np.full((1, 2, 2, 3), 255, np.uint8), (0.5,) * 3, (0.25,) * 3)[0, :, 0, 0]
    tensor([2., 2., 2.])
    """
    middle, spread = (torch.tensor(numbers).view(1, -1, 1, 1) * 255 for numbers in (mean, std))
    tensor = torch.from_numpy(images).permute(0, 3, 1, 2).to(torch.float32)
    return ((tensor - middle) / spread).contiguous(memory_format=torch.channels_last)
