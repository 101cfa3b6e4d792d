"""Pipeline: map many photos on all cores, one batch per thread, with results in order.

Each thread opens, maps and finishes its own batch, so no core waits for another or for the disk. If the network does
not support several threads at once, a lock lets one thread run it at a time. With an `Opener` each thread has a process
that opens its photos. A failure that concerns one photo is the error of that photo; the others go on.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from casmap.errors import UnreadableImage, UserError
from casmap.inference.mapper import Mapped, PhotoOpener, SaliencyMapper
from casmap.io.arrays import Window
from casmap.io.images import unusable
from casmap.reporting import SILENT, Reporter

AHEAD = 2  # batches per thread that may be started before the first result is taken
LEAST = 512  # shorter side, in pixels, of photos opened at a reduced size
BATCH = 8
# Of the errors that writing a file can have, these concern its name and not the disk or the folder.
OF_ONE_NAME = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR}

T = TypeVar("T")


@dataclass
class Finished(Generic[T]):
    """The result of a batch: results, an error for each unreadable photo, and the error that stopped the batch."""

    photos: int
    made: list[T] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    error: BaseException | None = None


class Pipeline(Generic[T]):
    """Map photos and call `finish` on each, in several threads. Use in a `with` block and iterate once.

    If the iteration stops early, `rest` gives the batches already started. whole: open photos at their full size.
    window: centre and width for DICOM. label: of the progress bar. opener: how photos are opened (default: in the
    threads themselves).
    """

    def __init__(
        self, paths: list[Path], mapper: SaliencyMapper, finish: Callable[[Mapped], T], batch: int = BATCH,
        whole: bool = True, window: Window | None = None, label: str = "Mapping photos", reporter: Reporter = SILENT,
        opener: PhotoOpener | None = None,
    ) -> None:  # fmt: skip
        self.paths, self.mapper, self.finish, self.batch = paths, mapper, finish, batch
        self.label, self.reporter, self.opener = label, reporter, opener
        self.least, self.window = None if whole else LEAST, window
        self._turn = None if mapper.network.concurrent else Lock()
        self.threads = cores()
        self._pool = ThreadPoolExecutor(self.threads)
        self._started: deque[Future[Finished[T]]] = deque()

    def __enter__(self) -> "Pipeline[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[Finished[T]]:
        """Yield finished batches in the order of the photos; the error of a batch is raised after its results."""
        waiting = iter(range(0, len(self.paths), self.batch))
        with self.reporter.progress(self.label, len(self.paths)) as advance:
            while True:
                for at in islice(waiting, AHEAD * self.threads + 1 - len(self._started)):
                    self._started.append(self._pool.submit(self._work, self.paths[at : at + self.batch]))
                if not self._started:
                    return
                finished = self._started[0].result()
                self._started.popleft()  # only now: if interrupted while waiting, `rest` still has it
                yield finished
                if finished.error is not None:
                    raise finished.error
                advance(finished.photos)

    def rest(self) -> Iterator[Finished[T]]:
        """After a stop: the batches already started. No other batch is started."""
        started = [batch for batch in self._started if not batch.cancel()]
        yield from (batch.result() for batch in started)

    def _work(self, paths: list[Path]) -> Finished[T]:
        done: Finished[T] = Finished(len(paths))
        try:
            for one in self.mapper.map(
                paths, window=self.window, least=self.least, turn=self._turn, opener=self.opener
            ):
                self._finish(one, done)
        except BaseException as error:  # raised again in __iter__, after the results of the batch
            done.error = error
        return done

    def _finish(self, one: Mapped | UnreadableImage, done: Finished[T]) -> None:
        """Finish a photo, or record its error; raise an error that concerns every photo."""
        if isinstance(one, UnreadableImage):
            done.skipped.append(str(one))
            return
        try:
            done.made.append(self.finish(one))
        except UserError as error:
            of_one_name = getattr(error.__cause__, "errno", None) in OF_ONE_NAME
            if not (of_one_name or isinstance(error, UnreadableImage)):
                raise
            done.skipped.append(str(error))
        except Exception as error:
            done.skipped.append(str(unusable(one.source, error)))


def cores() -> int:
    """The number of cores that this process may use.

    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
