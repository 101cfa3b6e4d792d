"""The parts of meaningful perturbation by hand, and where the place of the evidence is known."""

import pytest
import torch
from torch.nn.functional import interpolate

from casmap.baselines.meaningful_perturbation import SIDE, SMOOTH, meaningful_perturbation, upsampled
from casmap.baselines.support.blurring import blur


@pytest.mark.parametrize("shape", [(224, 224), (64, 96), (32, 32)])
def test_a_mask_is_enlarged_and_then_smoothed(shape) -> None:
    torch.manual_seed(0)
    mask = torch.rand(2, 1, SIDE, SIDE)
    wanted = blur(interpolate(mask, shape, mode="bilinear"), SMOOTH)
    torch.testing.assert_close(upsampled(mask, torch.zeros(2, 3, *shape)), wanted, rtol=1e-5, atol=1e-6)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(meaningful_perturbation, few=4) > 0.7
