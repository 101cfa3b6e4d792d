"""Photos in, finished work out, in order: a thread for each core opens, maps and finishes a batch of its own.

A pass of a network that one core makes alone waits for no other core, and while one thread waits for the disk the
others work. Where the network is not to be run by several threads at once, they take turns with it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from casmap.data.resizing import resize
from casmap.errors import UnreadableImage
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.saliency_map import Mask
from casmap.io.images import Image, open_image, open_smaller
from casmap.io.levels import Window

AHEAD = 2  # batches for each thread that may be begun before the first of them is taken
LEAST = 512  # pixels of the shorter side of a photo that is only looked at

T = TypeVar("T")


@dataclass(frozen=True)
class Mapped:
    """A photo that was mapped: at its own width and height, or smaller where that is enough.

    mask: as the network gives it. seen: the class that it sees.
    """

    path: Path
    photo: Image
    width: int
    height: int
    mask: Mask
    seen: str


@dataclass
class Finished(Generic[T]):
    """What became of a batch: what was made of its photos, a sentence for each that cannot be read, what stopped it."""

    photos: int
    made: list[T] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    error: BaseException | None = None


class Pipeline(Generic[T]):
    """Map photos and finish each. Iterate once, in a `with`; what was begun when that is stopped, `rest` gives.

    whole: photos at their full size. window: for DICOM. finish is called in many threads.
    """

    def __init__(
        self,
        paths: list[Path],
        mapper: SaliencyMapper,
        finish: Callable[[Mapped], T],
        batch: int,
        whole: bool = True,
        window: Window | None = None,
    ) -> None:
        self.paths, self.mapper, self.finish, self.batch = paths, mapper, finish, batch
        self.whole, self.window = whole, window
        self._turn = nullcontext() if mapper.network.concurrent else Lock()
        self.threads = cores()
        self._pool = ThreadPoolExecutor(self.threads)
        self._begun: deque[Future[Finished[T]]] = deque()

    def __enter__(self) -> "Pipeline[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[Finished[T]]:
        """Batch by batch, in the order of the photos."""
        for at in range(0, len(self.paths), self.batch):
            self._begun.append(self._pool.submit(self._work, self.paths[at : at + self.batch]))
            if len(self._begun) > AHEAD * self.threads:
                yield self._next()
        while self._begun:
            yield self._next()

    def rest(self) -> Iterator[Finished[T]]:
        """After it was stopped: the batches that were begun; no other is begun any more."""
        begun = [batch for batch in self._begun if not batch.cancel()]
        yield from (batch.result() for batch in begun)

    def _next(self) -> Finished[T]:
        finished = self._begun[0].result()
        self._begun.popleft()  # only now: whoever is interrupted while waiting finds it in `rest`
        return finished

    def _work(self, paths: list[Path]) -> Finished[T]:
        done: Finished[T] = Finished(len(paths))
        try:
            opened = []
            for path in paths:
                try:
                    opened.append((path, *self._open(path)))
                except UnreadableImage as error:
                    done.skipped.append(str(error))
            if opened:
                squares = np.stack([resize(photo, self.mapper.size, "squash") for _, photo, _ in opened])
                with self._turn:
                    masks, logits = self.mapper.masks(squares)
                for (path, photo, size), mask, row in zip(opened, masks, logits, strict=True):
                    seen = self.mapper.titles[int(row.argmax())]
                    done.made.append(self.finish(Mapped(path, photo, *size, mask, seen)))
        except BaseException as error:  # is raised again by who takes the batch, after what was made is kept
            done.error = error
        return done

    def _open(self, path: Path) -> tuple[Image, tuple[int, int]]:
        if not self.whole:
            return open_smaller(path, LEAST, self.window)
        photo = open_image(path, self.window)
        return photo, (photo.shape[1], photo.shape[0])


def cores() -> int:
    """How many this process may use.

    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
