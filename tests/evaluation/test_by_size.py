"""Object sizes and LE by size against values worked out by hand."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.by_size import SIZES, group_by_size, object_share, sizes_of
from casmap.evaluation.numbers import mean_of

SHARES = arrays(np.float64, st.integers(1, 30), elements=st.integers(0, 100).map(lambda value: value / 100))


def test_the_share_is_that_of_the_largest_box_inside_the_image() -> None:
    assert object_share(np.array([[0.0, 0, 4, 5]]), 10) == pytest.approx(0.2)
    assert object_share(np.array([[0.0, 0, 4, 5], [5, 5, 10, 10]]), 10) == pytest.approx(0.25)
    assert object_share(np.array([[-90.0, -90, 110, 110]]), 10) == 1
    assert object_share(np.array([[12.0, 0, 15, 5]]), 10) == 0
    assert object_share(np.empty((0, 4)), 10) == 0
    # A larger box that is nearly all outside is smaller than one that is inside.
    assert object_share(np.array([[-20.0, 0, 1, 10], [4, 4, 8, 8]]), 10) == pytest.approx(0.16)


def test_groups_by_hand() -> None:
    shares = [0.0, 0.0999, 0.1, 0.2, 0.329, 0.33, 0.5, 0.7, 1.0]
    errors = np.array([1.0, 1, 1, 0, 1, 0, 0, 1, 0])
    groups = group_by_size(shares, {"LE": errors})
    assert {size: (group.photos, group.numbers["LE"].value) for size, group in groups.items()} == {
        "below 0.1": (2, 1), "0.1-0.2": (1, 1), "0.2-0.33": (2, 0.5), "0.33-0.5": (1, 0), "0.5-0.7": (1, 0),
        "above 0.7": (2, 0.5), "0.1-0.33": (3, pytest.approx(2 / 3)),
    }  # fmt: skip
    assert groups["0.2-0.33"].numbers["LE"] == mean_of([0, 1])


def test_a_size_that_no_photo_has_is_left_out() -> None:
    groups = group_by_size([0.6, 0.8], {"LE": np.array([0.0, 1.0])})
    assert list(groups) == ["0.5-0.7", "above 0.7"]
    assert sizes_of([groups, group_by_size([0.05], {"LE": np.array([0.0])})]) == ["below 0.1", "0.5-0.7", "above 0.7"]


@given(SHARES, st.integers(0, 99))
def test_every_photo_is_in_one_size_and_the_mean_is_theirs(shares: npt.NDArray[np.float64], seed: int) -> None:
    errors = np.random.default_rng(seed).integers(0, 2, len(shares)).astype(np.float64)
    groups = group_by_size(shares, {"LE": errors})
    both = groups.pop("0.1-0.33", None)
    assert sum(group.photos for group in groups.values()) == len(shares)
    total = sum(group.photos * group.numbers["LE"].value for group in groups.values())
    assert total / len(shares) == pytest.approx(errors.mean())
    parts = [groups[size].photos for size in ("0.1-0.2", "0.2-0.33") if size in groups]
    assert (0 if both is None else both.photos) == sum(parts)


def test_the_sizes_meet() -> None:
    bounds = [bound for size, bound in SIZES.items() if size != "0.1-0.33"]
    assert [low for low, _ in bounds[1:]] == [high for _, high in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == (0, np.inf)
