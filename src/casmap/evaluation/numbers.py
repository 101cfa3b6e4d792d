"""Numbers with 95 % intervals over the measured images, by percentile bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
# Indices drawn at once: 32 MB, whatever the number of images.
CHUNK = 4_000_000
Interval = tuple[float, float]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Number:
    """A measured number with its interval, of 95 % unless another level is named."""

    value: float
    low: float
    high: float


def mean_of(values: npt.ArrayLike, level: float = 0.95) -> Number:
    """The mean over photos with its interval of this level.

    >>> mean_of([1.0, 1.0])
    Number(value=1.0, low=1.0, high=1.0)
    """
    array = np.asarray(values, np.float64)
    return Number(float(array.mean()), *bootstrap_interval(array, level=level))


def paired_difference(first: npt.ArrayLike, second: npt.ArrayLike, level: float = 0.95) -> Number:
    """The mean over photos of first - second, with its interval: (N,), (N,) -> Number.

    The difficulty of a photo cancels, so this interval is narrower than the difference of two separate intervals.

    >>> paired_difference([0.75, 1.0, 0.5], [0.5, 0.75, 0.25])  # the same difference for all
    Number(value=0.25, low=0.25, high=0.25)
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"Paired values need the same images on both sides, not {len(a)} and {len(b)}.")
    return mean_of(a - b, level)


def percent(number: Number) -> str:
    """A share in percent with its interval.

    >>> percent(Number(0.361, 0.33, 0.39))
    '36.1 [33.0, 39.0]'
    """
    return "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * x for x in (number.value, number.low, number.high)))


def points(difference: Number) -> str:
    """A difference of shares, in percentage points with its interval.

    >>> points(Number(-0.1, -0.15, -0.05))
    '-10.0 [-15.0, -5.0]'
    """
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * x for x in (difference.value, difference.low, difference.high)))


def signed(gain: Number) -> str:
    """A gain with its sign and its interval.

    >>> signed(Number(0.5, -0.25, 1.25))
    '+0.50 [-0.25, +1.25]'
    """
    return f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"


def columns(name: str, number: Number) -> dict[str, float]:
    """A number as three columns of a CSV file.

    >>> columns("LE", Number(0.3, 0.2, 0.4))
    {'LE': 0.3, 'LE low': 0.2, 'LE high': 0.4}
    """
    return {name: number.value, f"{name} low": number.low, f"{name} high": number.high}


def negated(difference: Number) -> Number:
    """The difference with the opposite sign.

    >>> negated(Number(1.0, 0.5, 3.0))
    Number(value=-1.0, low=-3.0, high=-0.5)
    """
    return Number(-difference.value, -difference.high, -difference.low)


def bootstrap_interval(
    values: npt.NDArray[np.floating], seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval:
    """Bootstrap interval of the mean of per-image values: (N,) -> (low, high).

    Draw N images with replacement and take the mean, `resamples` times; a share of (1 - level) / 2 of these means lies
    below low, and as many above high.

    >>> low, high = bootstrap_interval(np.array([0.0, 1.0] * 50))
    >>> round(low, 2), round(high, 2)  # ½ ± 1.96 * √(¼ / 100)
    (0.4, 0.6)
    """
    return _interval(len(values), lambda drawn: values[drawn].mean(axis=1, dtype=np.float64), seed, resamples, level)


def bootstrap_statistic(
    items: npt.NDArray[Any], statistic: Callable[[npt.NDArray[Any]], float], seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Bootstrap interval of a statistic that is not a mean, such as the spread: (N, ...) -> (low, high).

    >>> low, high = bootstrap_statistic(np.array([0.0, 1.0] * 50), np.std)
    >>> 0.48 < low < high <= 0.5
    True
    """
    return _interval(len(items), lambda drawn: [statistic(items[each]) for each in drawn], seed, resamples)


def bootstrap_of_sums(
    items: npt.NDArray[Any], statistic: Callable[[npt.NDArray[Any]], float], seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Bootstrap interval of a statistic of the items' sum, such as PxAP of histograms: (N, ...) -> (low, high).

    The same as `bootstrap_statistic` of sample.sum(axis=0), with the same samples, but all sums of a chunk are one
    matrix product of the sample counts and the items: nothing is copied per sample.

    >>> bootstrap_of_sums(np.array([1, 2, 4]), float)
    (3.0, 12.0)
    """
    flat = items.reshape(len(items), items[0].size).astype(np.float64)

    def of_sums(drawn: Indices) -> list[float]:
        times = np.stack([np.bincount(each, minlength=len(items)) for each in drawn]).astype(np.float64)
        return [statistic(total) for total in (times @ flat).reshape(-1, *items.shape[1:])]

    return _interval(len(items), of_sums, seed, resamples)


def _interval(
    count: int, statistics: Callable[[Indices], npt.ArrayLike], seed: int, resamples: int, level: float = 0.95
) -> Interval:
    """Percentiles of the statistic over samples, which are index arrays (samples, count), as many at once as fit."""
    if count == 0:
        raise ValueError("A bootstrap interval needs at least one image.")
    random, rows = np.random.default_rng(seed), max(1, CHUNK // count)
    sizes = (min(rows, resamples - done) for done in range(0, resamples, rows))
    all_statistics = [np.asarray(statistics(random.integers(count, size=(size, count))), np.float64) for size in sizes]
    low, high = np.quantile(np.concatenate(all_statistics), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
