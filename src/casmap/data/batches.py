"""Batches for training, each a function of the seed and the step alone, so that a run can stop and go on anywhere."""

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
from casmap.data.shards import near_order
from casmap.errors import UserError

READERS = 2  # threads that open photos
AHEAD = 2  # batches made while the networks work on one
WINDOW = 256  # whole photos that may wait in memory


class Batches:
    """Random crops of photos, normalised: images (N, 3, size, size) and labels (N,), for any range of steps.

    An epoch covers `share` of the photos, drawn anew each time. rank, ranks: of several processes that share each
    batch, this one makes every ranks-th picture of it. Photos are read in threads: decoding and resizing release
    Python's lock, and an unreadable photo's error arrives as it is.
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
        self.places = range(rank, self.batch, ranks)  # of the batch that are made here
        self.threads = threads
        # A million photos take a while to be shuffled; a step or two ahead is another epoch at times.
        self._order = lru_cache(maxsize=2)(self._shuffled)
        self.least = math.ceil(size / math.sqrt(smallest_crop))  # of a photo, so that no crop has to be enlarged
        self.normalise = partial(normalised, mean=mean, std=std)

    def indices(self, step: int) -> npt.NDArray[np.int64]:
        """Which photos are in the batch of this step."""
        epoch, place = divmod(step, self.covered // self.batch)
        return self._order(epoch)[place * self.batch : (place + 1) * self.batch]

    def between(self, start: int, stop: int, device: torch.device | str = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of steps start, ..., stop - 1."""
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
        """All photos in the order of an epoch; those of shards near one another."""
        chance = np.random.default_rng((self.seed, 1, epoch))
        shards = getattr(self.photos, "shards", None)
        return chance.permutation(len(self.photos)) if shards is None else near_order(shards, chance)

    def _crop(self, index: int, step: int, place: int) -> npt.NDArray[np.uint8]:
        rng = np.random.default_rng((self.seed, 2, step, place))
        crop = random_resized_crop(self.photos.image(index, self.least), self.size, rng, self.smallest_crop)
        return crop[:, ::-1] if self.flip and rng.random() < 0.5 else crop


def random_resized_crop(
    image: npt.NDArray[np.uint8], size: int, rng: np.random.Generator, smallest: float
) -> npt.NDArray[np.uint8]:
    """A random part of an image, 3:4 to 4:3 in shape, resized to (size, size, 3).

    It covers at least the share `smallest`, unless the image is too long for that.
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
    how = cv2.INTER_AREA if h > size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image[top : top + h, left : left + w], (size, size), interpolation=how), np.uint8)


def whole_photos(
    photos: PhotoSet, chosen: npt.NDArray[np.int64], sizes: tuple[int, ...], batch: int
) -> Iterator[tuple[Tensor, list[npt.NDArray[np.uint8]]]]:
    """Labels (n,) and the photos chosen, whole, squashed to (n, size, size, 3) for each of the sizes, in batches.

    Photos are read in threads, at most WINDOW of them ahead.
    """

    def squares(index: np.int64) -> list[npt.NDArray[np.uint8]]:
        photo = photos.image(int(index), max(sizes))
        return [resize(photo, size, "squash") for size in sizes]

    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(chosen), WINDOW):
            window = chosen[start : start + WINDOW]
            labels, waiting = iter(photos.labels[window]), pool.map(squares, window)
            while seen := list(islice(waiting, batch)):
                told = np.array(list(islice(labels, batch)))
                yield torch.from_numpy(told), [np.stack(pictures) for pictures in zip(*seen, strict=True)]


def normalised(pictures: npt.NDArray[np.uint8], mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Pictures (N, H, W, 3) as a network takes them, (N, 3, H, W), of zero mean: a masked pixel is the mean colour.

    >>> normalised(np.full((1, 2, 2, 3), 255, np.uint8), (0.5,) * 3, (0.25,) * 3)[0, :, 0, 0]
    tensor([2., 2., 2.])
    """
    middle, spread = (torch.tensor(numbers).view(1, -1, 1, 1) * 255 for numbers in (mean, std))
    tensor = torch.from_numpy(pictures).permute(0, 3, 1, 2).to(torch.float32)
    return ((tensor - middle) / spread).contiguous(memory_format=torch.channels_last)
