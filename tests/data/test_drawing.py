"""Drawing: the layers mark the pixels that were painted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data.drawing import Canvas, coat, head, tail
from casmap.data.scenes import HUES, MAX_CLASSES

FORMS = MAX_CLASSES // HUES
RED = np.array([1.0, 0.0, 0.0], np.float32)


def canvas(height=48, width=64, seed=0):
    return Canvas(np.random.default_rng(seed), height, width)


def rectangle(x0, y0, x1, y1):
    """The pixels x0..x1, y0..y1, both ends included, as a polygon through their centres."""
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], dtype=float)


def test_paint_covers_its_shape_and_nothing_else():
    drawing = canvas()
    before = drawing.colours.copy()
    layer = drawing.paint(drawing.shape(rectangle(10, 5, 19, 14)), RED)
    inside = np.zeros((48, 64), bool)
    inside[5:15, 10:20] = True
    np.testing.assert_array_equal(drawing.layers == layer, inside)
    np.testing.assert_allclose(drawing.colours[6:14, 11:19], np.broadcast_to(RED, (8, 8, 3)), atol=1e-6)
    outside = drawing.shape(rectangle(10, 5, 19, 14)) == 0
    np.testing.assert_array_equal(drawing.colours[outside], before[outside])


def test_the_layer_painted_last_is_on_top():
    drawing = canvas()
    lower = drawing.paint(drawing.shape(rectangle(5, 5, 30, 30)), RED)
    upper = drawing.paint(drawing.shape(rectangle(20, 20, 40, 40)), RED)
    assert drawing.layers[10, 10] == lower
    assert drawing.layers[25, 25] == upper
    assert drawing.layers[45, 60] == 0


@pytest.mark.parametrize("part", [head, coat, tail])
def test_each_form_of_a_part_is_visible_and_differs_from_the_others(part):
    drawings = set()
    for form in range(FORMS):
        drawing = canvas()
        layer = part(drawing, np.array([32.0, 24.0]), 0.3, 40.0, form, RED)
        assert (drawing.layers == layer).sum() > 20
        drawings.add(drawing.colours.tobytes())
    assert len(drawings) == FORMS


@pytest.mark.parametrize("part", [head, coat, tail])
def test_the_layer_of_a_part_marks_the_pixels_it_changed(part):
    drawing = canvas()
    before = drawing.colours.copy()
    layer = part(drawing, np.array([32.0, 24.0]), 0.0, 40.0, 0, RED)
    changed = (drawing.colours != before).any(axis=-1)
    assert (drawing.layers[~changed] != layer).all()
    softened = changed & (drawing.layers != layer)
    assert softened.sum() < (drawing.layers == layer).sum()  # only the soft edge is changed and not the part's


@settings(max_examples=25, deadline=None)
@given(st.integers(16, 70), st.integers(16, 70), st.integers(0, 10**6))
def test_any_canvas_becomes_an_image(height, width, seed):
    rng = np.random.default_rng(seed)
    drawing = Canvas(rng, height, width)
    drawing.body(rng, np.array([width / 2, height / 2]), 0.4, width / 2)
    drawing.stick(rng, np.array([0.0, 0.0]), 1.0, 10.0)
    drawing.blob(rng, np.array([width, height], dtype=float), 10.0, RED)
    developed = drawing.develop(rng)
    assert developed.shape == (height, width, 3)
    assert developed.dtype == np.uint8
    assert developed.std() > 1


@settings(deadline=None)
@given(st.floats(0, 3), st.floats(0, 1), st.integers(0, 10**6))
def test_a_lower_strength_gives_paler_colours(hue, strength, seed):
    drawing = canvas(16, 16)
    faded, bright = (drawing.hue(np.random.default_rng(seed), hue, s) for s in (strength, 1.0))
    for colour in (faded, bright):
        assert colour.min() >= 0
        assert colour.max() <= 1
    assert np.ptp(faded) <= np.ptp(bright) + 1e-6
