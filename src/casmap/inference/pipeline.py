"""Photos in, finished work out, in order: a thread for each core opens, maps and finishes a batch of its own.

A pass of a network that one core makes alone waits for no other core, and while one thread waits for the disk the
others work. Where the network is not to be run by several threads at once, they take turns with it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from casmap.inference.mapper import Mapped, SaliencyMapper
from casmap.io.arrays import Window
from casmap.reporting import SILENT, Reporter

AHEAD = 2  # batches for each thread that may be begun before the first of them is taken
LEAST = 512  # pixels of the shorter side of a photo that is only looked at
BATCH = 8

T = TypeVar("T")


@dataclass
class Finished(Generic[T]):
    """What became of a batch: what was made of its photos, a sentence for each that cannot be read, what stopped it."""

    photos: int
    made: list[T] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    error: BaseException | None = None


class Pipeline(Generic[T]):
    """Map photos and finish each. Iterate once, in a `with`; what was begun when that is stopped, `rest` gives.

    whole: photos at their full size. window: for DICOM. label: of the progress bar. finish is called in many threads.
    """

    def __init__(
        self, paths: list[Path], mapper: SaliencyMapper, finish: Callable[[Mapped], T], batch: int = BATCH,
        whole: bool = True, window: Window | None = None, label: str = "mapping", reporter: Reporter = SILENT,
    ) -> None:  # fmt: skip
        self.paths, self.mapper, self.finish, self.batch = paths, mapper, finish, batch
        self.label, self.reporter = label, reporter
        self.least, self.window = None if whole else LEAST, window
        self._turn = None if mapper.network.concurrent else Lock()
        self.threads = cores()
        self._pool = ThreadPoolExecutor(self.threads)
        self._begun: deque[Future[Finished[T]]] = deque()

    def __enter__(self) -> "Pipeline[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[Finished[T]]:
        """Batch by batch, in the order of the photos; what stopped a batch is raised after what it had made."""
        waiting = iter(range(0, len(self.paths), self.batch))
        with self.reporter.progress(self.label, len(self.paths)) as advance:
            while True:
                for at in islice(waiting, AHEAD * self.threads + 1 - len(self._begun)):
                    self._begun.append(self._pool.submit(self._work, self.paths[at : at + self.batch]))
                if not self._begun:
                    return
                finished = self._begun[0].result()
                self._begun.popleft()  # only now: whoever is interrupted while waiting finds it in `rest`
                yield finished
                if finished.error is not None:
                    raise finished.error
                advance(finished.photos)

    def rest(self) -> Iterator[Finished[T]]:
        """After it was stopped: the batches that were begun; no other is begun any more."""
        begun = [batch for batch in self._begun if not batch.cancel()]
        yield from (batch.result() for batch in begun)

    def _work(self, paths: list[Path]) -> Finished[T]:
        done: Finished[T] = Finished(len(paths))
        try:
            for one in self.mapper.map(paths, window=self.window, least=self.least, turn=self._turn):
                if isinstance(one, Mapped):
                    done.made.append(self.finish(one))
                else:
                    done.skipped.append(str(one))
        except BaseException as error:  # is raised again by who takes the batch, after what was made is kept
            done.error = error
        return done


def cores() -> int:
    """How many this process may use.

    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
