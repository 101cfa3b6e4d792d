"""LE at several IOUs and boxes above 0.75 against values worked out by hand."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.box_fit import ABOVE, ALPHA_ONE, BINARY_RULES, HALF, MEAN, best_ious, by_rule, fit_values
from casmap.evaluation.localization import iou, localization_error
from casmap.inference.components import largest_box

IOUS = arrays(np.float64, st.integers(1, 20), elements=st.integers(0, 20).map(lambda value: value / 20))


def test_the_two_rules_by_hand() -> None:
    masks = np.array([[[0.0, 0.25, 0.5, 0.25]], [[0.5, 1.0, 1.0, 1.0]]], np.float32)  # means 1/4 and 7/8
    assert BINARY_RULES[ALPHA_ONE].binary(masks).tolist() == [[[False, True, True, True]], [[False, True, True, True]]]
    assert BINARY_RULES[HALF].binary(masks).tolist() == [[[False, False, True, False]], [[True] * 4]]
    assert list(BINARY_RULES) == [ALPHA_ONE, HALF]


def test_best_ious_by_hand() -> None:
    binary = np.zeros((3, 4, 4), bool)
    binary[0, :2, :3] = True  # a box of 3 x 2
    binary[0, 3, 3] = True  # apart and smaller: does not count
    binary[1, 1:3, 1:3] = True
    boxes = [np.array([[0.0, 0, 4, 4], [0, 0, 3, 1]]), np.array([[1.0, 1, 3, 3]]), np.array([[0.0, 0, 4, 4]])]
    # 6 of 16, and 3 of 6; the same box; no box at all.
    np.testing.assert_array_equal(best_ious(binary, boxes), [0.5, 1, 0])
    assert best_ious(binary[:1], [np.empty((0, 4))]).tolist() == [0]


def test_measures_by_hand() -> None:
    found = dict(fit_values(np.array([0.0, 0.3, 0.31, 0.5, 0.7, 0.75, 0.76])))
    assert {key: values.tolist() for key, values in found.items() if key != MEAN} == {
        "LE at IoU 0.3": [1, 1, 0, 0, 0, 0, 0],  # exactly 0.3 is not above it
        "LE": [1, 1, 1, 1, 0, 0, 0],
        "LE at IoU 0.7": [1, 1, 1, 1, 1, 0, 0],
        ABOVE: [0, 0, 0, 0, 0, 0, 1],
    }
    np.testing.assert_allclose(found[MEAN], [1, 1, 2 / 3, 2 / 3, 1 / 3, 0, 0])


@given(IOUS)
def test_a_stricter_iou_never_has_fewer_errors(ious: npt.NDArray[np.float64]) -> None:
    found = dict(fit_values(ious))
    assert (found["LE at IoU 0.3"] <= found["LE"]).all()
    assert (found["LE"] <= found["LE at IoU 0.7"]).all()
    assert (found[ABOVE] <= 1 - found["LE at IoU 0.7"]).all()
    assert found[MEAN].mean() == pytest.approx(
        np.mean([found[key].mean() for key in ("LE at IoU 0.3", "LE", "LE at IoU 0.7")])
    )


@given(arrays(np.bool_, (3, 5, 6)), st.integers(0, 3), st.integers(1, 3))
def test_le_is_the_papers(binary: npt.NDArray[np.bool_], at: int, side: int) -> None:
    boxes = [np.array([[at, at, at + side, at + side], [0, 0, 3, 3]], float)] * 3
    predicted = [largest_box(each) for each in binary]
    ious = best_ious(binary, boxes)
    np.testing.assert_array_equal(dict(fit_values(ious))["LE"], localization_error(predicted, boxes))
    for box, true, found in zip(predicted, boxes, ious, strict=True):
        assert found == (0 if box is None else max(iou(box, true)))


def test_the_papers_rule_goes_without_saying() -> None:
    assert by_rule("mask IoU", ALPHA_ONE) == "mask IoU"
    assert by_rule("mask IoU", HALF) == "mask IoU, threshold 0.5"
