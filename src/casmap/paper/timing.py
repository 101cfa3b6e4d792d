"""Milliseconds for a photo, of several ways to work on the same photos, in one run."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

ROUNDS = 5
PATIENCE = 10.0  # seconds that all rounds of one way may take
BATCH = 8
REST = 0.1  # seconds for which threads of the work before may still spin, and take a core from the one timed

Work = Callable[[npt.NDArray[np.int64]], object]


def milliseconds(works: Sequence[Work], photos: int) -> list[float]:
    """The median over rounds in which each has its turn; a work is given the numbers of the photos to work on.

    A first turn with one photo warms it up, a second tells how many its patience allows, one at least.

    >>> sleeping, idle = milliseconds([lambda chosen: time.sleep(0.001 * len(chosen)), len], photos=3)
    >>> sleeping > idle
    True
    """
    for work in works:
        _seconds(work, 1)
    once = [_seconds(work, 1) for work in works]
    counts = [max(1, min(BATCH, photos, int(PATIENCE / ROUNDS / max(seconds, 1e-6)))) for seconds in once]
    turns = [[_seconds(*pair) for pair in zip(works, counts, strict=True)] for _ in range(ROUNDS)]
    return [1000 * float(median / count) for median, count in zip(np.median(turns, axis=0), counts, strict=True)]


def _seconds(work: Work, count: int) -> float:
    """How long it works on each of the first `count` photos, in all; after a rest."""
    time.sleep(REST)
    began = time.perf_counter()
    work(np.arange(count))
    return time.perf_counter() - began
