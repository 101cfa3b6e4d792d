"""Objects from maps."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as run_lengths

from casmap.inference.components import Threshold
from casmap.inference.objects import objects_in, objects_of, outline


@st.composite
def blobs(draw):
    """Ellipses on a plane: connected parts without holes, of any size."""
    height, width = draw(st.integers(12, 60)), draw(st.integers(12, 60))
    mask = np.zeros((height, width), np.uint8)
    for _ in range(draw(st.integers(1, 3))):
        centre = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
        axes = draw(st.integers(3, 12)), draw(st.integers(3, 12))
        cv2.ellipse(mask, centre, axes, draw(st.integers(0, 180)), 0, 360, 1, -1)
    return mask


@given(blobs())
def test_parts_are_the_components_largest_first_and_run_lengths_hold_them_exactly(mask) -> None:
    parts = objects_of(mask.astype(np.float32), "cat", "all", min_area=0)
    if mask.all():  # a constant mask marks no object
        assert parts == []
        return
    decoded = [run_lengths.decode(part.rle).astype(bool) for part in parts]
    np.testing.assert_array_equal(np.sum(decoded, axis=0), mask)
    assert [part.area for part in parts] == [int(each.sum()) for each in decoded]
    assert [part.area for part in parts] == sorted((part.area for part in parts), reverse=True)
    for part, pixels in zip(parts, decoded, strict=True):
        rows, columns = np.nonzero(pixels)
        assert part.box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert objects_of(mask.astype(np.float32), "cat", "largest", min_area=0) == parts[:1]


@given(blobs())
def test_the_outline_encloses_the_part_within_a_pixel(mask) -> None:
    height, width = mask.shape
    for part in objects_of(mask.astype(np.float32), "cat", "all", min_area=0):
        pixels = run_lengths.decode(part.rle)
        flat = [number for point in part.polygon for number in point]
        drawn = run_lengths.decode(run_lengths.merge(run_lengths.frPyObjects([flat], height, width)))
        # A polygon has no holes: compare with the part without them, a little larger, and a little smaller.
        outside = cv2.floodFill(np.ascontiguousarray(np.pad(pixels, 3)), None, (0, 0), 2)[1] == 2
        solid, wide = (~outside).astype(np.uint8), np.ones((5, 5), np.uint8)
        larger, smaller = (change(solid, wide)[3:-3, 3:-3] == 1 for change in (cv2.dilate, cv2.erode))
        assert not drawn[~larger].any()
        assert drawn[smaller].all()
        assert all(0 <= x <= width and 0 <= y <= height for x, y in part.polygon)


def test_rectangles_are_outlined_to_a_quarter_of_a_pixel() -> None:
    mask = np.zeros((40, 50), bool)
    mask[5:25, 10:40] = True
    assert sorted(outline(mask)) == [(10.25, 5.25), (10.25, 24.75), (39.75, 5.25), (39.75, 24.75)]


@pytest.mark.parametrize("place", [np.s_[3, 2:9], np.s_[2:9, 3], np.s_[4, 4]])
def test_a_line_of_pixels_has_an_outline_too(place) -> None:
    mask = np.zeros((12, 12), bool)
    mask[place] = True
    points = np.array(outline(mask))
    assert len(points) >= 3
    assert cv2.contourArea(points.astype(np.float32)) > 0


def test_what_is_too_small_is_no_object_and_the_score_is_the_mean_of_the_mask() -> None:
    mask = np.zeros((100, 100))
    mask[:30, :30] = 0.5
    mask[:10, :10] = 1.0
    mask[60:65, 60:65] = 1.0  # a four-hundredth of the photo
    (part,) = objects_of(mask.astype(np.float32), "cat", "all")
    assert part.score == pytest.approx((100 * 1.0 + 800 * 0.5) / 900)
    assert len(objects_of(mask.astype(np.float32), "cat", "all", min_area=0.002)) == 2
    assert objects_of(mask.astype(np.float32), "cat", "all", min_area=0.5) == []


def test_alpha_moves_the_border() -> None:
    mask = np.zeros((100, 100))
    mask[:50], mask[:10] = 0.4, 1.0
    (wide,), (narrow,) = (
        objects_of(mask.astype(np.float32), "cat", threshold=Threshold(alpha)) for alpha in (1.0, 2.0)
    )
    assert wide.box == (0, 0, 100, 50)
    assert narrow.box == (0, 0, 100, 10)


def test_work_on_many_boxes_ends_where_the_check_says_so() -> None:
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        objects_in(np.eye(8, dtype=np.float32), "cat", [(0, 0, 8, 8)] * 100, check=check)
    assert len(calls) == 3
