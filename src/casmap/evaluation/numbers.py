"""Numbers with their intervals: means, differences, and how they are written."""

import numpy as np
import numpy.typing as npt

from casmap.evaluation.evaluate import Number
from casmap.evaluation.intervals import bootstrap_interval, paired_interval


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
