"""The stretching of a map, which baselines and training share."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.models.class_activation import min_max

# Whole numbers of 64ths: a difference of two is 0 or no less than that.
MAPS = arrays(np.float32, (3, 2, 4), elements=st.integers(-64000, 64000).map(lambda value: value / 64))


def test_min_max_by_hand() -> None:
    maps = torch.tensor([[[-1.0, 0.0], [1.0, 3.0]], [[10.0, 20.0], [20.0, 10.0]], [[7.0, 7.0], [7.0, 7.0]]])
    assert min_max(maps).tolist() == [[[0, 0.25], [0.5, 1]], [[0, 1], [1, 0]], [[0, 0], [0, 0]]]


@given(MAPS)
def test_min_max_goes_from_0_to_1_and_keeps_the_order(maps: np.ndarray) -> None:
    before = maps.copy()
    stretched = min_max(torch.from_numpy(maps)).numpy()
    np.testing.assert_array_equal(maps, before)
    assert stretched.shape == maps.shape
    for old, new in zip(maps, stretched, strict=True):
        assert new.min() == 0
        assert new.max() == pytest.approx(1 if old.max() > old.min() else 0)
        assert (np.diff(new.flatten()[old.flatten().argsort()]) >= 0).all()


@given(MAPS.map(np.round), st.integers(1, 50), st.integers(-50, 50))
def test_scale_and_level_of_a_map_mean_nothing(maps: np.ndarray, scale: int, level: int) -> None:
    plain = torch.from_numpy(maps)
    torch.testing.assert_close(min_max(plain * scale + level), min_max(plain), rtol=0, atol=1e-5)


def test_a_map_that_is_nearly_flat_is_not_blown_up() -> None:
    nearly = torch.tensor([[0.0, 1e-7]])
    assert min_max(nearly).max() == pytest.approx(0.1)
    assert min_max(nearly, least=torch.finfo(nearly.dtype).tiny).max() == 1


def test_a_flat_map_passes_a_finite_gradient() -> None:
    flat = torch.ones(2, 3, requires_grad=True)
    (back,) = torch.autograd.grad(min_max(flat)[0, 0], flat)
    assert torch.isfinite(back).all()
