"""The blur is torchvision's, which takes the whole kernel at once."""

import pytest
import torch
from torchvision.transforms.functional import gaussian_blur

from casmap.baselines.support.blurring import blur


@pytest.mark.parametrize(("deviation", "shape"), [(1.0, (2, 3, 20, 31)), (5.0, (1, 1, 64, 40)), (10.0, (1, 2, 61, 61))])
def test_it_is_torchvisions(deviation, shape) -> None:
    maps = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    side = 2 * round(3 * deviation) + 1
    expected = gaussian_blur(maps, [side, side], [deviation, deviation])
    torch.testing.assert_close(blur(maps, deviation), expected, rtol=1e-4, atol=1e-5)


def test_a_picture_smaller_than_the_kernel_is_blurred_too() -> None:
    maps = torch.rand(1, 1, 8, 12, generator=torch.Generator().manual_seed(0))
    assert blur(maps, 11.0).std() < 0.2 * maps.std()
