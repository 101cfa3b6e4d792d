"""Numbers with intervals: how far they could move by chance of which images were measured, by percentile bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
# Images drawn at once: 32 MB of indices, whatever the number of images.
CHUNK = 4_000_000
Interval = tuple[float, float]


@dataclass(frozen=True)
class Number:
    """A measured number and its 95 % interval."""

    value: float
    low: float
    high: float


def mean_of(values: npt.ArrayLike) -> Number:
    """The mean over photos with its 95 % interval.

    >>> mean_of([1.0, 1.0])
    Number(value=1.0, low=1.0, high=1.0)
    """
    array = np.asarray(values, np.float64)
    return Number(float(array.mean()), *bootstrap_interval(array))


def apart(first: npt.ArrayLike, second: npt.ArrayLike) -> Number:
    """The mean of first - second, photo by photo, with its 95 % interval.

    >>> apart([0.0, 1.0], [1.0, 1.0]).value
    -0.5
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return Number(float((a - b).mean()), *paired_interval(a, b))


def percent(number: Number) -> str:
    """A share in percent, with its interval.

    >>> percent(Number(0.361, 0.33, 0.39))
    '36.1 [33.0, 39.0]'
    """
    return "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * x for x in (number.value, number.low, number.high)))


def points(difference: Number) -> str:
    """A difference of shares, in points.

    >>> points(Number(-0.1, -0.15, -0.05))
    '-10.0 [-15.0, -5.0]'
    """
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * x for x in (difference.value, difference.low, difference.high)))


def columns(name: str, number: Number) -> dict[str, float]:
    """A number as columns of a CSV.

    >>> columns("LE", Number(0.3, 0.2, 0.4))
    {'LE': 0.3, 'LE low': 0.2, 'LE high': 0.4}
    """
    return {name: number.value, f"{name} low": number.low, f"{name} high": number.high}


def turned(difference: Number) -> Number:
    """The difference seen from the other side.

    >>> turned(Number(1.0, 0.5, 3.0))
    Number(value=-1.0, low=-3.0, high=-0.5)
    """
    return Number(-difference.value, -difference.high, -difference.low)


def bootstrap_interval(
    values: npt.NDArray[np.floating], seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval:
    """Interval of the mean of per-image values: (N,) -> (low, high).

    Draw N images with replacement, take the mean, `resamples` times over; low and high leave (1 - level) / 2 of these
    means outside on each side.

    >>> low, high = bootstrap_interval(np.array([0.0, 1.0] * 50))
    >>> round(low, 2), round(high, 2)  # ½ ± 1.96 * √(¼ / 100)
    (0.4, 0.6)
    """
    return _interval(len(values), lambda drawn: values[drawn].mean(axis=1, dtype=np.float64), seed, resamples, level)


def paired_interval(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> Interval:
    """Interval of mean(a - b), for two methods measured on the same images: (N,), (N,) -> (low, high).

    What makes an image hard for both cancels, so this is narrower than the two intervals apart.

    >>> paired_interval(np.array([0.75, 1.0, 0.5]), np.array([0.5, 0.75, 0.25]))  # always better by the same
    (0.25, 0.25)
    """
    if a.shape != b.shape:
        raise ValueError(f"A pair needs the same images on both sides, not {len(a)} and {len(b)}.")
    return bootstrap_interval(np.subtract(a, b, dtype=np.float64))


def bootstrap_statistic(
    items: npt.NDArray[Any], statistic: Callable[[npt.NDArray[Any]], float], seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Interval of a statistic of items that is no mean, such as the spread: (N, ...) -> (low, high).

    >>> low, high = bootstrap_statistic(np.array([0.0, 1.0] * 50), np.std)
    >>> 0.48 < low < high <= 0.5
    True
    """
    return _interval(len(items), lambda drawn: [statistic(items[each]) for each in drawn], seed, resamples)


def bootstrap_of_sums(
    items: npt.NDArray[Any], statistic: Callable[[npt.NDArray[Any]], float], seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Interval of a statistic of the items' sum, such as PxAP of histograms: (N, ...) -> (low, high).

    As `bootstrap_statistic` of chosen.sum(axis=0), with the same draws; but how often each item is drawn, times the
    items, is one product of matrices: nothing is copied draw by draw.

    >>> bootstrap_of_sums(np.array([1, 2, 4]), float)
    (3.0, 12.0)
    """
    flat = items.reshape(len(items), items[0].size).astype(np.float64)

    def of_sums(drawn: npt.NDArray[np.int64]) -> list[float]:
        times = np.stack([np.bincount(each, minlength=len(items)) for each in drawn]).astype(np.float64)
        return [statistic(total) for total in (times @ flat).reshape(-1, *items.shape[1:])]

    return _interval(len(items), of_sums, seed, resamples)


def _interval(
    count: int,
    figures: Callable[[npt.NDArray[np.int64]], npt.ArrayLike],
    seed: int,
    resamples: int,
    level: float = 0.95,
) -> Interval:
    """Percentiles of the figures of draws, given as indices (draws, count), as many at once as fit into memory."""
    if count == 0:
        raise ValueError("An interval needs at least one image.")
    random, rows = np.random.default_rng(seed), max(1, CHUNK // count)
    sizes = (min(rows, resamples - done) for done in range(0, resamples, rows))
    all_figures = [np.asarray(figures(random.integers(count, size=(size, count))), np.float64) for size in sizes]
    low, high = np.quantile(np.concatenate(all_figures), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
