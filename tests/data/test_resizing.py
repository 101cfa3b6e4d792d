import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.data.photos import Annotation
from casmap.data.resizing import Policy, resize, resize_annotation
from casmap.evaluation.localization import iou

EDGES = st.integers(1, 300)


@st.composite
def _boxes(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    corners = np.array(draw(st.lists(st.tuples(*[st.integers(-40, 300)] * 2), min_size=2, max_size=2)), dtype=float)
    sides = np.array(draw(st.lists(st.tuples(*[st.integers(1, 300)] * 2), min_size=2, max_size=2)), dtype=float)
    return np.concatenate([corners, corners + sides], axis=1)


def _moved(boxes: npt.NDArray[np.float64], height: int, width: int, size: int, policy: Policy) -> np.ndarray:
    return resize_annotation(Annotation(boxes), height, width, size, policy).boxes


def test_crop_by_hand() -> None:
    # 60 x 100 to 30: half the size, then 10 of the 50 columns are cut off on each side.
    boxes = np.array([[0.0, 0, 100, 60], [40, 10, 60, 50]])
    np.testing.assert_allclose(_moved(boxes, 60, 100, 30, "crop"), [[-10, 0, 40, 30], [10, 5, 20, 25]])


def test_squash_by_hand() -> None:
    boxes = np.array([[0.0, 0, 100, 60], [40, 15, 60, 45]])
    np.testing.assert_allclose(_moved(boxes, 60, 100, 30, "squash"), [[0, 0, 30, 30], [12, 7.5, 18, 22.5]])


def test_no_boxes_stay_no_boxes() -> None:
    assert _moved(np.empty((0, 4)), 60, 100, 30, "crop").shape == (0, 4)


@pytest.mark.parametrize("policy", ["crop", "squash", "squash and crop"])
@pytest.mark.parametrize("shape", [(60, 100), (100, 60), (30, 30), (7, 9), (20, 300), (1, 500), (500, 1)])
def test_any_shape_becomes_square(shape: tuple[int, int], policy: Policy) -> None:
    image = np.full((*shape, 3), (10, 100, 250), dtype=np.uint8)
    square = resize(image, 30, policy)
    assert square.shape == (30, 30, 3)
    assert square.dtype == np.uint8
    assert (square == (10, 100, 250)).all()


def test_shrinking_averages() -> None:
    """Interpolation between the middle pixels of each block of 4 x 4 would not see the bright one in its corner."""
    image = np.zeros((64, 64, 3), np.uint8)
    image[::4, ::4] = 160
    assert (resize(image, 16, "crop") == 10).all()
    assert (resize(image, 16, "squash") == 10).all()


def test_growing_interpolates() -> None:
    image = np.zeros((2, 2, 3), np.uint8)
    image[:, 1] = 200
    assert resize(image, 4, "crop")[0, :, 0].tolist() == [0, 50, 150, 200]
    assert resize(image.transpose(1, 0, 2), 4, "crop")[:, 0, 0].tolist() == [0, 50, 150, 200]


def test_squashing_shrinks_one_edge_and_grows_the_other() -> None:
    image = np.zeros((2, 16, 3), np.uint8)
    image[1, ::4] = 160  # 40 on the average of four columns
    assert (resize(image, 4, "squash")[..., 0] == [[0], [10], [30], [40]]).all()


def test_the_photo_is_not_written_to() -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    square = resize(image, 20, "crop")
    np.testing.assert_array_equal(square, image)
    assert not np.shares_memory(square, image)


@pytest.mark.parametrize("policy", ["crop", "squash"])
@pytest.mark.parametrize(("height", "width"), [(80, 120), (120, 80), (33, 47)])
def test_photo_mask_parts_and_box_stay_together(height: int, width: int, policy: Policy) -> None:
    """A bright rectangle in the photo, as a box, as a mask and as a part, ends in the same place by all four ways."""
    x0, y0, x1, y1 = width // 3, height // 4, width // 2 + 4, height // 2 + 4
    mask = np.zeros((height, width), np.uint8)
    mask[y0:y1, x0:x1] = 255
    image = np.repeat(mask[..., None], 3, axis=2)
    known = Annotation(np.array([[x0, y0, x1, y1]], dtype=float), mask, (mask == 255)[None])
    moved = resize_annotation(known, height, width, 60, policy)
    assert moved.mask is not None
    assert moved.parts is not None
    np.testing.assert_array_equal(moved.parts[0], moved.mask == 255)
    bright = resize(image, 60, policy)[..., 0] >= 128
    rows, columns = np.nonzero(bright)
    seen = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    np.testing.assert_allclose(seen, moved.boxes[0], atol=0.51)  # half a pixel: images have whole pixels
    assert (bright != (moved.mask == 255)).mean() < 0.02


def test_mask_by_hand() -> None:
    mask = np.array([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]], dtype=np.uint8)
    # The central 2 x 2; then each pixel twice. Squashed to 2: the centres 1.5 and 4.5 lie in columns 1 and 4.
    annotation = Annotation(np.empty((0, 4)), mask)
    np.testing.assert_array_equal(resize_annotation(annotation, 2, 6, 2, "crop").mask, [[2, 3], [8, 9]])
    np.testing.assert_array_equal(resize_annotation(annotation, 2, 6, 4, "crop").mask[0], [2, 2, 3, 3])
    np.testing.assert_array_equal(resize_annotation(annotation, 2, 6, 2, "squash").mask, [[1, 4], [7, 10]])


@given(EDGES, EDGES, st.integers(1, 64), st.sampled_from(["crop", "squash", "squash and crop"]), st.integers(0, 99))
def test_masks_keep_their_values_and_parts_stay_apart(
    height: int, width: int, size: int, policy: Policy, seed: int
) -> None:
    random = np.random.default_rng(seed)
    mask = random.choice(np.array([0, 128, 255], np.uint8), (height, width))
    parts = np.stack([mask == 255, mask == 128])
    moved = resize_annotation(Annotation(np.empty((0, 4)), mask, parts), height, width, size, policy)
    assert moved.mask is not None
    assert moved.parts is not None
    assert moved.mask.shape == (size, size)
    assert moved.parts.shape == (2, size, size)
    assert set(np.unique(moved.mask)) <= {0, 128, 255}
    np.testing.assert_array_equal(moved.parts, [moved.mask == 255, moved.mask == 128])


def test_unknown_stays_unknown() -> None:
    moved = resize_annotation(Annotation(np.zeros((1, 4))), 5, 9, 4, "crop")
    assert moved.mask is None
    assert moved.parts is None


@given(_boxes(), EDGES, EDGES, st.integers(1, 300), st.sampled_from(["crop", "squash"]))
def test_iou_of_two_boxes_is_kept(
    boxes: npt.NDArray[np.float64], height: int, width: int, size: int, policy: Policy
) -> None:
    """Also where the crop cuts boxes off, because they are never clipped."""
    moved = _moved(boxes, height, width, size, policy)
    assert iou(moved[0], moved[1:])[0] == pytest.approx(iou(boxes[0], boxes[1:])[0], abs=1e-9)


@given(_boxes(), EDGES, EDGES, st.integers(1, 300))
def test_crop_keeps_shapes(boxes: npt.NDArray[np.float64], height: int, width: int, size: int) -> None:
    moved = _moved(boxes, height, width, size, "crop")
    scale = size / min(height, width)
    np.testing.assert_allclose(moved[:, 2:] - moved[:, :2], scale * (boxes[:, 2:] - boxes[:, :2]), rtol=1e-9, atol=1e-9)


@given(_boxes(), EDGES, EDGES, st.integers(1, 300))
def test_squash_scaled_back_is_identity(boxes: npt.NDArray[np.float64], height: int, width: int, size: int) -> None:
    moved = _moved(boxes, height, width, size, "squash")
    np.testing.assert_allclose(moved * np.array([width, height, width, height]) / size, boxes, rtol=1e-9, atol=1e-9)


def test_other_policies_are_refused() -> None:
    with pytest.raises(AssertionError, match="pad"):
        resize(np.zeros((4, 4, 3), np.uint8), 2, "pad")  # type: ignore[arg-type]


def test_squash_and_crop_by_hand() -> None:
    # 512 x 128 to 256 x 256: half the height, twice the width; 16 pixels are cut off at each edge, boxes are clipped.
    boxes = np.array([[0.0, 0, 128, 512], [28, 132, 108, 332], [0, 0, 4, 512]])
    moved = _moved(boxes, 512, 128, 224, "squash and crop")
    np.testing.assert_allclose(moved, [[0, 0, 224, 224], [40, 50, 200, 150], [0, 0, 0, 224]])


def test_squash_and_crop_is_the_middle_of_squash() -> None:
    image = np.random.default_rng(0).integers(0, 256, (90, 60, 3), dtype=np.uint8)
    cropped = resize(image, 28, "squash and crop")
    np.testing.assert_array_equal(cropped, resize(image, 32, "squash")[2:30, 2:30])


@given(_boxes(), EDGES, EDGES, st.integers(4, 300))
def test_squash_and_crop_never_leaves_the_crop(
    boxes: npt.NDArray[np.float64], height: int, width: int, size: int
) -> None:
    moved = _moved(boxes, height, width, size, "squash and crop")
    assert moved.min() >= 0
    assert moved.max() <= size
    assert (moved[:, 2:] >= moved[:, :2]).all()
