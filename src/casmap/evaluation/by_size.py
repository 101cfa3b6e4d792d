"""The localization error by object size: the share of the image that the true box covers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from casmap.evaluation.localization import Floats
from casmap.evaluation.numbers import Number, mean_of

UNION = "0.1-0.33"  # of two other sizes
# The least share, and the least share of the next size.
SIZES: dict[str, tuple[float, float]] = {
    "below 0.1": (0.0, 0.1), "0.1-0.2": (0.1, 0.2), "0.2-0.33": (0.2, 0.33), "0.33-0.5": (0.33, 0.5),
    "0.5-0.7": (0.5, 0.7), "above 0.7": (0.7, np.inf), UNION: (0.1, 0.33),
}  # fmt: skip


@dataclass(frozen=True)
class SizeGroup:
    """The photos whose object has one size: how many there are, and their numbers."""

    photos: int
    numbers: dict[str, Number]


def object_share(boxes: Floats, size: int) -> float:
    """The share of an image (size, size) that its largest true box covers, without what is outside: (n, 4) -> float.

    >>> object_share(np.array([[0.0, 0, 2, 5], [-5, 0, 5, 10]]), 10)  # 0.1, and 0.5 of a box that is half outside
    0.5
    """
    inside = boxes.clip(0, size)
    return float((inside[:, 2:] - inside[:, :2]).prod(axis=1).max(initial=0.0)) / size**2


def group_by_size(shares: npt.ArrayLike, values: Mapping[str, npt.NDArray[np.floating]]) -> dict[str, SizeGroup]:
    """The means of the values of photos, for each size that any photo has: shares (N,), values (N,) each.

    >>> groups = group_by_size([0.05, 0.15, 0.25, 0.3], {"LE": np.array([1.0, 1.0, 0.0, 0.0])})
    >>> {size: (group.photos, round(group.numbers["LE"].value, 2)) for size, group in groups.items()}
    {'below 0.1': (1, 1.0), '0.1-0.2': (1, 1.0), '0.2-0.33': (2, 0.0), '0.1-0.33': (3, 0.33)}
    """
    of = np.asarray(shares, np.float64)
    chosen = {size: (of >= low) & (of < high) for size, (low, high) in SIZES.items()}
    return {
        size: SizeGroup(int(own.sum()), {key: mean_of(value[own]) for key, value in values.items()})
        for size, own in chosen.items()
        if own.any()
    }


def sizes_of(groups: Sequence[Mapping[str, SizeGroup]]) -> list[str]:
    """The sizes that any of several systems has, in their order."""
    return [size for size in SIZES if any(size in group for group in groups)]
