"""ROAD's imputation against a dense system of equations, and against pytorch-grad-cam where it is installed."""

from importlib.resources import files

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.evaluation.insertion import most_salient_first
from casmap.evaluation.road import NOISE, imputed, road, without


def slow(image: npt.NDArray[np.float64], missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """One equation for each missing pixel: its value is the weighted mean of its neighbours in the image."""
    height, width = missing.shape
    places = [(int(y), int(x)) for y, x in np.argwhere(missing)]
    matrix, right = np.zeros((len(places),) * 2), np.zeros((len(places), image.shape[2]))
    for row, (y, x) in enumerate(places):
        for i in (y - 1, y, y + 1):
            for j in (x - 1, x, x + 1):
                if (i, j) == (y, x) or not (0 <= i < height and 0 <= j < width):
                    continue
                weight = 1 / 12 if i != y and j != x else 1 / 6
                matrix[row, row] += weight
                if missing[i, j]:
                    matrix[row, places.index((i, j))] -= weight
                else:
                    right[row] += weight * image[i, j]
    found = image.copy()
    found[missing] = np.linalg.solve(matrix, right)
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_missing_pixels_are_the_weighted_means_of_their_neighbours(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    image, missing = random.standard_normal((7, 9, 3)), random.random((7, 9)) < share
    missing[3, 4] = False  # one pixel is known
    np.testing.assert_allclose(imputed(image, missing), slow(image, missing), atol=5e-3)


def test_a_large_hole_is_filled_too() -> None:
    """A ramp is its own mean of neighbours, whatever is missing inside it."""
    ramp = np.repeat(np.linspace(0, 1, 96)[None, :, None], 96, axis=0)
    missing = np.zeros((96, 96), bool)
    missing[:, 1:-1] = True
    np.testing.assert_allclose(imputed(ramp, missing), ramp, atol=5e-3)  # half of the noise that ROAD adds


def normalised_photo(size: int) -> npt.NDArray[np.float32]:
    """The page's example photo, with mean 0 and standard deviation 1."""
    photo = cv2.imread(str(files("casmap.web") / "static" / "example.jpg"))
    small = cv2.resize(photo, (size, size), interpolation=cv2.INTER_AREA).astype(np.float32)
    return (small - small.mean()) / small.std()


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_a_photo_is_imputed_to_a_fraction_of_the_noise(share, monkeypatch) -> None:
    """The same equations, solved a hundred times more precisely."""
    image = normalised_photo(224)
    missing = np.zeros(224 * 224, bool)
    missing[most_salient_first(cv2.GaussianBlur(image[..., 0], (0, 0), 15))[: round(share * missing.size)]] = True
    found = imputed(image, missing.reshape(224, 224))
    monkeypatch.setattr("casmap.evaluation.road.TOLERANCE", 1e-7)
    monkeypatch.setattr("casmap.evaluation.road.MOST", 5000)
    exact = imputed(image, missing.reshape(224, 224))
    assert np.sqrt(((found - exact)[missing.reshape(224, 224)] ** 2).mean()) < NOISE


def test_known_pixels_stay_and_imputed_ones_are_a_little_noisy() -> None:
    image = np.full((3, 32, 32), 0.5)
    order = most_salient_first(np.random.default_rng(0).random((32, 32)))
    (found,) = without(image, order, shares=(0.5,))
    changed = (found != 0.5).all(axis=0)
    assert set(np.flatnonzero(changed)) == set(order[:512])
    assert found[:, changed].std() == pytest.approx(NOISE, rel=0.1)


def test_the_measure_by_hand() -> None:
    assert road(np.array([1.0, 1.0]), np.array([0.0, 0.0])) == 0.5
    assert road(np.array([0.4, 0.2]), np.array([0.6, 0.4])) == pytest.approx(-0.1)


def test_pytorch_grad_cam_imputes_the_same() -> None:
    pytest.importorskip("pytorch_grad_cam")
    import torch
    from pytorch_grad_cam.metrics.road import NoisyLinearImputer

    random = np.random.default_rng(0)
    image, missing = random.standard_normal((12, 14, 3)), random.random((12, 14)) < 0.6
    theirs = NoisyLinearImputer(noise=0.0)(
        torch.from_numpy(image.transpose(2, 0, 1).copy()), torch.from_numpy(~missing).float()
    )
    np.testing.assert_allclose(imputed(image, missing), theirs.numpy().transpose(1, 2, 0), atol=5e-3)
