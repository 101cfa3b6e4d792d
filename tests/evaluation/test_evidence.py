import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.evidence import alpha_for_area, evidence_precision, evidence_recall
from casmap.inference.components import binary_mask

MASKS = arrays(np.float32, (3, 4, 4), elements=st.floats(0, 1, width=32))


def _parts(*pictures: list[str]) -> npt.NDArray[np.bool_]:
    return np.array([[[pixel == "#" for pixel in row] for row in picture] for picture in pictures])


PARTS = _parts(["##..", "##.."], ["....", "...#"], ["....", "...."])  # four pixels, one pixel, hidden


def test_recall_by_hand() -> None:
    binary = _parts(["#.##", "...."])[0]
    assert evidence_recall(binary, PARTS) == pytest.approx((1 / 4 + 0) / 2)
    assert evidence_recall(_parts(["###.", "#..#"])[0], PARTS) == pytest.approx((3 / 4 + 1) / 2)


def test_a_mask_of_ones_recalls_everything_and_is_not_precise() -> None:
    ones = np.ones((2, 4), dtype=bool)
    assert evidence_recall(ones, PARTS) == 1.0
    assert evidence_precision(ones, PARTS) == pytest.approx(5 / 8)


def test_precision_by_hand() -> None:
    assert evidence_precision(_parts(["#.##", "...#"])[0], PARTS) == pytest.approx(2 / 4)
    assert evidence_precision(np.zeros((2, 4), dtype=bool), PARTS) == 0.0


def test_a_pixel_of_two_parts_counts_once_for_precision() -> None:
    twice = _parts(["#..."], ["#..."])
    assert evidence_precision(_parts(["##.."])[0], twice) == pytest.approx(1 / 2)


def test_no_visible_part_is_said() -> None:
    with pytest.raises(ValueError, match="visible"):
        evidence_recall(np.ones((2, 4), dtype=bool), PARTS[2:])


def _area(masks: npt.NDArray[np.float32], alpha: float) -> float:
    return float(binary_mask(masks, alpha).mean())


def test_alpha_by_hand() -> None:
    masks = np.array([[[1.0, 2.0], [3.0, 4.0]]]) / 10  # mean 0.25: ratios 0.4, 0.8, 1.2, 1.6
    assert 0.8 < alpha_for_area(masks, 0.5) <= 1.2
    assert 1.2 < alpha_for_area(masks, 0.25) <= 1.6
    assert alpha_for_area(masks, 0.0) > 1.6
    assert alpha_for_area(masks, 1.0) <= 0.4


def test_flat_masks_give_the_nearest_area_they_reach() -> None:
    masks = np.array([[[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]])  # only 1 and 3/8 (and 0) can be had
    assert _area(masks, alpha_for_area(masks, 0.5)) == 3 / 8
    assert _area(masks, alpha_for_area(masks, 0.8)) == 1.0
    assert _area(masks, alpha_for_area(masks, 0.1)) == 0.0


def test_masks_of_zeros_do_not_stop_it() -> None:
    masks = np.stack([np.zeros((1, 4)), np.array([[0.1, 0.2, 0.3, 0.4]])])  # the first one is always full
    assert _area(masks, alpha_for_area(masks, 0.75)) == 0.75


def test_areas_are_shares() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        alpha_for_area(np.ones((1, 2, 2)), 50)


@given(MASKS, st.floats(0, 3), st.floats(0, 3))
def test_area_falls_as_alpha_grows(masks: npt.NDArray[np.float32], a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert _area(masks, low) >= _area(masks, high)


@given(arrays(np.float64, (3, 4, 4), elements=st.integers(0, 16).map(lambda value: value / 16)), st.floats(0, 1))
def test_no_other_alpha_comes_nearer(masks: npt.NDArray[np.float64], area: float) -> None:
    """Brute force: the area changes only at the ratios m / mean, so one alpha between any two of them is enough."""
    means = masks.mean(axis=(1, 2), keepdims=True)
    ratios = np.unique(masks / np.where(means > 0, means, 1.0))
    edges = np.concatenate([[0.0], ratios, [ratios[-1] + 1]])
    tried = (edges[1:] + edges[:-1]) / 2
    nearest = min(abs(float((masks >= alpha * means).mean()) - area) for alpha in tried)
    assert abs(_area(masks, alpha_for_area(masks, area)) - area) == pytest.approx(nearest, abs=1e-12)
