"""The pointing game and the coverage at equal area, against values worked out by hand and random orders."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.evaluation.pointing import coverage_at_equal_area, pointing_game


def test_a_map_of_the_region_itself_is_perfect_and_its_opposite_misses() -> None:
    region = np.zeros((8, 8), bool)
    region[2:4, 3:6] = True
    perfect, opposite = region.astype(float), 1.0 - region
    assert (pointing_game(perfect, region), coverage_at_equal_area(perfect, region)) == (1.0, 1.0)
    assert (pointing_game(opposite, region), coverage_at_equal_area(opposite, region)) == (0.0, 0.0)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), levels=st.integers(1, 5))
def test_both_are_the_mean_over_random_orders_of_equal_pixels(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(levels, size=(6, 7)).astype(float)
    region = rng.random((6, 7)) < 0.3
    region[0, 0] = True
    orders = [np.lexsort((rng.random(values.size), -values.ravel())) for _ in range(2000)]
    flat, count = region.ravel(), int(region.sum())
    peaks = np.mean([flat[order[0]] for order in orders])
    covered = np.mean([flat[order[:count]].mean() for order in orders])
    assert pointing_game(values, region) == pytest.approx(peaks, abs=0.06)
    assert coverage_at_equal_area(values, region) == pytest.approx(covered, abs=0.06)


def test_an_empty_region_cannot_be_covered() -> None:
    with pytest.raises(ValueError, match="empty region"):
        coverage_at_equal_area(np.zeros((2, 2)), np.zeros((2, 2), bool))
