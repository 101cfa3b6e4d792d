"""Edges: the mask of a network, interpolated or fitted to the edges of its photo by a guided filter."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib.stride_tricks import sliding_window_view

from casmap.errors import UserError
from casmap.inference import edges
from casmap.inference.edges import EPSILON, STEP, check_edges, coefficients, fit_mask, guided, radius_of

SIDE = 16
masks = hnp.arrays(np.float32, (SIDE, SIDE), elements=st.floats(0, 1, width=32))
photos = hnp.arrays(np.uint8, (SIDE, SIDE, 3))


def random_pair(seed=0, side=SIDE):
    rng = np.random.default_rng(seed)
    return rng.random((side, side), np.float32), rng.integers(0, 256, (side, side, 3), np.uint8)


def windows(values, radius):
    """The values in the window around each pixel, mirrored at the border: (S, S) -> (S, S, n)."""
    padded = np.pad(values, radius, mode="symmetric")
    return sliding_window_view(padded, (2 * radius + 1, 2 * radius + 1)).reshape(*values.shape, -1)


def slow(mask, image):
    """The guided filter by its definition, without box filters, elimination or float32."""
    radius, colours = radius_of(mask), image / 255
    around_m = windows(mask.astype(np.float64), radius)
    around = np.stack([windows(colours[..., c], radius) for c in range(3)], axis=-2)  # (S, S, 3, n)
    a, b = np.zeros((*mask.shape, 3)), np.zeros(mask.shape)
    for y, x in np.ndindex(mask.shape):
        window, m = around[y, x], around_m[y, x]
        covariance = np.cov(window, bias=True) + EPSILON * np.eye(3)
        a[y, x] = np.linalg.solve(covariance, [np.mean(c * m) - c.mean() * m.mean() for c in window])
        b[y, x] = m.mean() - a[y, x] @ window.mean(axis=1)
    mean_a = np.stack([windows(a[..., c], radius).mean(axis=-1) for c in range(3)], axis=-1)
    return np.clip((mean_a * colours).sum(axis=-1) + windows(b, radius).mean(axis=-1), 0, 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_filter_is_the_one_of_the_definition(seed):
    mask, photo = random_pair(seed, side=20)
    np.testing.assert_allclose(guided(mask, photo, photo), slow(mask, photo), atol=1e-4)


def test_the_filter_is_exact_enough_for_colours_that_hardly_differ():
    """Almost grey photos have almost singular covariances."""
    mask, photo = random_pair(side=20)
    grey = photo[..., :1] // 4 + np.arange(3, dtype=np.uint8)
    np.testing.assert_allclose(guided(mask, grey, grey), slow(mask, grey), atol=1e-3)


def test_windows_have_the_radius():
    mask = np.zeros((224, 224), np.float32)
    mask[112, 112] = 1
    *_, b = coefficients(mask, np.full((224, 224, 3), 50, np.uint8), 32)  # a mean of means: of all within 64 pixels
    rows, columns = np.nonzero(b > 1e-9)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (48, 176, 48, 176)


def test_the_radius_follows_the_size_of_the_object():
    """By hand: a fifth of the side of a square object, whatever the size of the image around it."""
    for side in (224, 448):
        mask = np.zeros((side, side), np.float32)
        mask[40:140, 60:160] = 1
        assert radius_of(mask) == 20
        assert radius_of(mask / 4) == 10


def test_a_small_object_does_not_fade():
    """A bird of two colours before leaves of many: in windows of the whole photo its mask would fall below 0.5."""
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, (28, 28, 3), np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    mask = np.zeros((224, 224), np.float32)
    mask[96:128, 96:128], photo[96:112, 96:128], photo[112:128, 96:128] = 0.8, (120, 80, 60), (90, 100, 110)
    wide = coefficients(mask, photo, 32)
    faded = sum(a * (photo[..., c] / 255) for c, a in enumerate(wide[:3])) + wide[3]
    assert faded[100:124, 100:124].mean() < 0.5 < guided(mask, photo, photo)[100:124, 100:124].min()


def test_coefficients_are_applied_at_the_size_of_the_photo():
    """By hand: the interpolated coefficients, times the colours of the photo."""
    mask, square = random_pair()
    photo = np.random.default_rng(1).integers(0, 256, (20, 31, 3), np.uint8)
    *a, b = (cv2.resize(one, (31, 20)) for one in coefficients(mask, square, radius_of(mask)))
    expected = sum(a[c] * (photo[..., c] / 255) for c in range(3)) + b
    np.testing.assert_allclose(guided(mask, square, photo), np.clip(expected, 0, 1), atol=1e-5)


def test_coefficients_are_computed_at_the_size_of_the_decoder():
    """A network's input of 16 pixels whose values are equal in squares of 4 x 4: the decoder has 4 x 4 values."""
    rng = np.random.default_rng(0)
    values, small = rng.random((4, 4), np.float32), rng.integers(0, 256, (4, 4, 3), np.uint8)
    mask, square = (one.repeat(STEP, axis=0).repeat(STEP, axis=1) for one in (values, small))
    photo = rng.integers(0, 256, (20, 31, 3), np.uint8)
    np.testing.assert_array_equal(fit_mask(mask, square, photo), guided(values, small, photo))


def test_a_photo_above_the_limit_gets_the_mask_of_a_reduced_copy(monkeypatch):
    mask, square = random_pair()
    photo = cv2.resize(square, (80, 40), interpolation=cv2.INTER_NEAREST)
    whole = fit_mask(mask, square, photo)
    monkeypatch.setattr(edges, "LIMIT", 40 * 20)
    small = cv2.resize(photo, (40, 20), interpolation=cv2.INTER_AREA)
    expected = cv2.resize(fit_mask(mask, square, small), (80, 40))
    np.testing.assert_array_equal(fit_mask(mask, square, photo), expected)
    assert not np.array_equal(expected, whole)


@given(st.floats(0, 1, width=32), photos)
def test_a_constant_mask_stays_constant(value, photo):
    mask = np.full((SIDE, SIDE), value, np.float32)
    for kind in ("sharp", "smooth"):
        np.testing.assert_allclose(fit_mask(mask, photo, photo, kind), value, atol=1e-6)


@given(masks, st.tuples(*[st.integers(0, 255)] * 3))
def test_with_a_constant_photo_the_filter_is_a_mean_of_means(mask, colour):
    photo = np.full((SIDE, SIDE, 3), colour, np.uint8)
    radius = radius_of(mask)
    expected = windows(windows(mask.astype(np.float64), radius).mean(axis=-1), radius).mean(axis=-1)
    np.testing.assert_allclose(guided(mask, photo, photo), expected, atol=1e-5)


@given(masks, masks, photos, st.floats(0, 1))
def test_the_filter_is_affine_in_the_mask(one, other, photo, share):
    mixed = np.float32(share) * one + np.float32(1 - share) * other
    first, second, both = (coefficients(mask, photo, 2) for mask in (one, other, mixed))
    for x, y, z in zip(first, second, both, strict=True):
        np.testing.assert_allclose(z, share * x + (1 - share) * y, atol=0.02)


@settings(deadline=None)
@given(masks, photos, st.integers(1, 40), st.integers(1, 40), st.sampled_from(["sharp", "smooth"]))
def test_a_fitted_mask_has_the_photos_size_and_values_in_0_to_1(mask, square, height, width, kind):
    photo = cv2.resize(square, (width, height))
    fitted = fit_mask(mask, square, photo, kind)
    assert fitted.shape == (height, width)
    assert fitted.dtype == np.float32
    assert fitted.min() >= 0
    assert fitted.max() <= 1


@given(masks, photos, st.sampled_from([np.s_[::-1], np.s_[:, ::-1]]))
def test_a_mirrored_photo_and_mask_give_the_mirrored_result(mask, photo, mirror):
    turned = np.ascontiguousarray(photo[mirror])
    found = guided(np.ascontiguousarray(mask[mirror]), turned, turned)
    np.testing.assert_allclose(found, guided(mask, photo, photo)[mirror], atol=1e-3)


def test_the_edge_of_the_mask_moves_to_the_edge_of_the_photo():
    """A square whose mask is 8 pixels too far right and down: the filter corrects half of the wrong pixels or more."""
    photo = np.full((224, 224, 3), (40, 90, 60), np.uint8)
    photo[60:160, 60:160] = 200, 120, 90
    truth = photo[..., 0] == 200
    mask = np.zeros((224, 224), np.float32)
    mask[68:168, 68:168] = 1
    wrong = {kind: ((fit_mask(mask, photo, photo, kind) >= 0.5) != truth).sum() for kind in ("smooth", "sharp")}
    assert wrong["sharp"] < wrong["smooth"] / 2


def test_smooth_masks_interpolate_the_values_of_the_decoder():
    """A value repeated 4 x 4 times is one value: without that, each would be a step."""
    values = np.random.default_rng(0).random((4, 4), np.float32)
    mask = values.repeat(STEP, axis=0).repeat(STEP, axis=1)
    photo = np.zeros((90, 70, 3), np.uint8)
    np.testing.assert_array_equal(fit_mask(mask, photo, photo, "smooth"), cv2.resize(values, (70, 90)))


@pytest.mark.parametrize("size", [14, 15, 16, 17, 18, 61])
def test_the_values_of_the_decoder_are_found_again_at_any_size(size):
    torch = pytest.importorskip("torch")
    quarter = (size + 3) // 4
    values = torch.arange(quarter**2).float().view(1, 1, quarter, quarter)
    nearest = torch.nn.functional.interpolate(values, [size, size], mode="nearest")[0, 0]
    np.testing.assert_array_equal(nearest[::STEP, ::STEP], values[0, 0])


def test_unknown_edges_are_refused():
    with pytest.raises(UserError, match=r"edges must be sharp or smooth, not 'soft'\."):
        check_edges("soft")
