"""Insertion and deletion by hand, and as the authors' program counts them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.evaluation.insertion import area_under, blurred, most_salient_first, replaced


def test_by_hand() -> None:
    before, after = np.zeros((1, 2, 2)), np.array([[[1.0, 2.0], [3.0, 4.0]]])
    order = most_salient_first(np.array([[0.2, 0.9], [0.4, 0.1]]))
    assert order.tolist() == [1, 2, 0, 3]
    found = replaced(before, after, order, steps=4)[:, 0]
    expected = [[[0, 0], [0, 0]], [[0, 2], [0, 0]], [[0, 2], [3, 0]], [[1, 2], [3, 0]], [[1, 2], [3, 4]]]
    assert found.tolist() == expected


def test_equal_values_come_in_a_random_order_and_always_the_same() -> None:
    order = most_salient_first(np.ones((8, 8)))
    assert sorted(order) == list(range(64))
    assert order.tolist() != list(range(64))
    assert order.tolist() == most_salient_first(np.ones((8, 8))).tolist()


def auc_of_the_authors(curve: list[float]) -> float:
    """Petsiuk's `auc`: the sum without half of both ends, divided by the number of steps."""
    return (sum(curve) - curve[0] / 2 - curve[-1] / 2) / (len(curve) - 1)


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_the_area_is_that_of_the_authors(curve: list[float]) -> None:
    assert area_under(np.array(curve)) == pytest.approx(auc_of_the_authors(curve))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_each_step_changes_the_most_salient_pixels_that_are_left(seed: int, steps: int) -> None:
    random = np.random.default_rng(seed)
    values = random.random((5, 6))
    found = replaced(np.zeros((3, 5, 6)), np.ones((3, 5, 6)), most_salient_first(values), steps)
    assert len(found) == steps + 1
    for step, version in enumerate(found):
        assert version[0].sum() == step * 30 // steps
        changed = version[0] == 1
        if changed.any() and not changed.all():
            assert values[changed].min() > values[~changed].max()


def test_a_flat_image_stays_as_it_is_when_blurred() -> None:
    image = np.full((20, 20, 3), 70, np.uint8)
    np.testing.assert_array_equal(blurred(image), image)
