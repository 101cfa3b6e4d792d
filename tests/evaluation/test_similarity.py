"""Rank correlation and SSIM against SciPy and scikit-image on the same maps."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr
from skimage.metrics import structural_similarity

from casmap.evaluation.similarity import KERNEL, rank_correlation, ssim, ssim_map
from casmap.io.arrays import min_max

MAPS = arrays(np.float64, (5, 6), elements=st.integers(0, 8).map(float))


@given(MAPS, MAPS)
def test_rank_correlation_is_scipys(a, b) -> None:
    assume(a.std() and b.std())
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a.ravel(), b.ravel()).statistic)


@pytest.mark.parametrize("seed", range(3))
def test_the_ssim_of_each_pixel_is_scikit_images(seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.random((40, 50))
    b = a + seed * random.random((40, 50))
    _, whole = structural_similarity(
        min_max(a), min_max(b), data_range=1.0, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, full=True
    )
    border = slice(KERNEL // 2, -(KERNEL // 2))  # where the window leaves the image, scikit-image has another border
    np.testing.assert_allclose(ssim_map(a, b)[border, border], whole[border, border], atol=1e-6)
    assert ssim(a, b) == ssim_map(a, b).mean()


def test_a_map_and_its_opposite_are_dissimilar() -> None:
    a = np.random.default_rng(0).random((32, 32))
    assert ssim(a, 1 - a) < 0 < ssim(a, a) == pytest.approx(1)
