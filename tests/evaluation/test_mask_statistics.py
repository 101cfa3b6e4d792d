import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation

MASKS = arrays(np.float32, (2, 4, 5), elements=st.floats(0, 1, width=32))


def test_total_variation_by_hand() -> None:
    masks = np.array([[[0.0, 1.0, 1.0], [0.0, 0.5, 0.0]], [[0.3, 0.3, 0.3], [0.3, 0.3, 0.3]]])
    # across: 1 + 0, 0.5 + 0.5; down: 0 + 0.5 + 1
    np.testing.assert_allclose(total_variation(masks), [3.5, 0.0])


@given(MASKS)
def test_total_variation_agrees_with_loops(masks: npt.NDArray[np.float32]) -> None:
    expected = [
        sum(abs(m[i + 1][j] - m[i][j]) for i in range(3) for j in range(5))
        + sum(abs(m[i][j + 1] - m[i][j]) for i in range(4) for j in range(4))
        for m in masks.tolist()
    ]
    assert total_variation(masks).tolist() == pytest.approx(expected, abs=1e-5)


def test_mask_entropy_by_hand() -> None:
    # -½ log2 ½ = ½, -¼ log2 ¼ = ½, -⅛ log2 ⅛ = ⅜; 0 and 1 give 0
    masks = np.array([[[0.5, 0.25], [0.125, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    np.testing.assert_allclose(mask_entropy(masks), [(0.5 + 0.5 + 0.375) / 4, 0.0])


def test_mask_entropy_of_decided_masks_is_plain_zero() -> None:
    assert not np.signbit(mask_entropy(np.ones((1, 3, 3), np.float32))).any()


@given(MASKS)
def test_mask_entropy_agrees_with_loops(masks: npt.NDArray[np.float32]) -> None:
    expected = [-sum(v * math.log2(v) for row in m for v in row if v > 0) / 20 for m in masks.tolist()]
    assert mask_entropy(masks).tolist() == pytest.approx(expected, abs=1e-6)


def test_spread_by_hand() -> None:
    masks = np.stack([np.full((2, 2), 0.1), np.array([[1.0, 0.0], [1.0, 0.0]])])
    volumes = mean_mask(masks)
    np.testing.assert_allclose(volumes, [0.1, 0.5])
    assert spread(volumes) == pytest.approx(0.2)  # both are 0.2 from their mean 0.3


def test_mean_of_many_float32_pixels_does_not_drift() -> None:
    assert mean_mask(np.full((1, 3000, 3000), 0.1, np.float32))[0] == pytest.approx(float(np.float32(0.1)), rel=1e-9)
