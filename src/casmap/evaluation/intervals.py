"""How far a figure could move by chance of which images were measured: percentile bootstrap over images."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
# Images drawn at once: 32 MB of indices, whatever the number of images.
CHUNK = 4_000_000


def bootstrap_interval(
    values: npt.NDArray[np.floating], seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float]:
    """Interval of the mean of per-image values: (N,) -> (low, high).

    Draw N images with replacement, take the mean, `resamples` times over; low and high leave (1 - level) / 2 of these
    means outside on each side.

    >>> low, high = bootstrap_interval(np.array([0.0, 1.0] * 50))
    >>> round(low, 2), round(high, 2)  # ½ ± 1.96 * √(¼ / 100)
    (0.4, 0.6)
    """
    random, count = np.random.default_rng(seed), _count(values)
    rows = max(1, CHUNK // count)
    means = np.concatenate(
        [
            values[random.integers(count, size=(min(rows, resamples - done), count))].mean(axis=1, dtype=np.float64)
            for done in range(0, resamples, rows)
        ]
    )
    return _percentiles(means, level)


def paired_interval(
    a: npt.NDArray[np.floating],
    b: npt.NDArray[np.floating],
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of mean(a - b), for two methods measured on the same images: (N,), (N,) -> (low, high).

    What makes an image hard for both cancels, so this is narrower than the two intervals apart.

    >>> paired_interval(np.array([0.75, 1.0, 0.5]), np.array([0.5, 0.75, 0.25]))  # always better by the same
    (0.25, 0.25)
    """
    if a.shape != b.shape:
        raise ValueError(f"A pair needs the same images on both sides, not {len(a)} and {len(b)}.")
    return bootstrap_interval(np.subtract(a, b, dtype=np.float64), seed, resamples, level)


def bootstrap_statistic(
    items: npt.NDArray[Any],
    statistic: Callable[[npt.NDArray[Any]], float],
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of a statistic of items that is no mean, such as the spread: (N, ...) -> (low, high).

    >>> low, high = bootstrap_statistic(np.array([0.0, 1.0] * 50), np.std)
    >>> 0.48 < low < high <= 0.5
    True
    """
    random, count = np.random.default_rng(seed), _count(items)
    draws = [statistic(items[random.integers(count, size=count)]) for _ in range(resamples)]
    return _percentiles(np.array(draws, dtype=np.float64), level)


def bootstrap_of_sums(
    items: npt.NDArray[Any],
    statistic: Callable[[npt.NDArray[Any]], float],
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of a statistic of the items' sum, such as PxAP of histograms: (N, ...) -> (low, high).

    As `bootstrap_statistic` of chosen.sum(axis=0), with the same draws; but how often each item is drawn, times the
    items, is one product of matrices: nothing is copied draw by draw.

    >>> bootstrap_of_sums(np.array([1, 2, 4]), float, level=1.0)
    (3.0, 12.0)
    """
    random, count = np.random.default_rng(seed), _count(items)
    flat, rows = items.reshape(count, -1).astype(np.float64), max(1, CHUNK // count)
    draws: list[float] = []
    for done in range(0, resamples, rows):
        chosen = [random.integers(count, size=count) for _ in range(min(rows, resamples - done))]
        times = np.stack([np.bincount(each, minlength=count) for each in chosen]).astype(np.float64)
        draws += [statistic(total) for total in (times @ flat).reshape(-1, *items.shape[1:])]
    return _percentiles(np.array(draws, dtype=np.float64), level)


def _count(items: npt.NDArray[Any]) -> int:
    if len(items) == 0:
        raise ValueError("An interval needs at least one image.")
    return len(items)


def _percentiles(draws: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
