"""OM, LE and F1 against values worked out by hand, and against slow loops over pixels that share no code with them."""

import numpy as np
import numpy.typing as npt
import pytest
import scipy.ndimage
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.localization import (
    center_mask,
    continuous_f1,
    iou,
    localization_error,
    mask_iou,
    official_metric,
)
from casmap.inference.components import Box, binary_mask, largest_box

# Sixteenths, so that sums and means are exact and `m >= mean` means the same to numpy and to a loop.
MASKS = arrays(np.float64, (8, 8), elements=st.integers(0, 16).map(lambda value: value / 16))


@st.composite
def _boxes(draw: st.DrawFn) -> tuple[float, float, float, float]:
    """A box in quarters of pixels of an 8 x 8 picture, perhaps partly outside."""
    x0, y0 = draw(st.integers(-16, 28)) / 4, draw(st.integers(-16, 28)) / 4
    return x0, y0, x0 + draw(st.integers(1, 48)) / 4, y0 + draw(st.integers(1, 48)) / 4


BINARY = arrays(np.bool_, (6, 7))
TRUTHS = arrays(np.uint8, (6, 7), elements=st.sampled_from([0, 128, 255]))
BOX_LISTS = st.lists(_boxes(), min_size=1, max_size=3).map(lambda boxes: np.array(boxes))


def predicted_box(mask: npt.NDArray[np.floating], alpha: float = 1.0) -> Box | None:
    """The tightest box around the largest component of the binary mask (H, W); None where that is empty."""
    return largest_box(binary_mask(mask, alpha))


def center_box(height: int, width: int) -> tuple[float, float, float, float]:
    """Both sides times √½, so half of the area."""
    y, x = (1 - 0.5**0.5) / 2 * height, (1 - 0.5**0.5) / 2 * width
    return x, y, width - x, height - y


def slow_iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = width * height if width > 0 and height > 0 else 0.0
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def slow_components(binary: list[list[bool]]) -> list[list[tuple[int, int]]]:
    """Flood fill in 8 directions: the pixels of each component."""
    height, width, seen, components = len(binary), len(binary[0]), set(), []
    for start in [(i, j) for i in range(height) for j in range(width) if binary[i][j]]:
        if start in seen:
            continue
        seen.add(start)
        component = [start]
        for i, j in component:  # grows while it is walked
            for k in (i - 1, i, i + 1):
                for n in (j - 1, j, j + 1):
                    if 0 <= k < height and 0 <= n < width and binary[k][n] and (k, n) not in seen:
                        seen.add((k, n))
                        component.append((k, n))
        components.append(component)
    return components


def slow_box(mask: npt.NDArray[np.float64], alpha: float) -> tuple[float, float, float, float] | None:
    """The box of the largest component; two largest ones are not a case that the paper decides."""
    rows = mask.tolist()
    mean = sum(sum(row) for row in rows) / (len(rows) * len(rows[0]))
    components = slow_components([[value >= alpha * mean for value in row] for row in rows])
    if not components:
        return None
    components.sort(key=len, reverse=True)
    assume(len(components) == 1 or len(components[0]) > len(components[1]))
    i, j = zip(*components[0], strict=True)
    return min(j), min(i), max(j) + 1, max(i) + 1


def slow_f1(mask: npt.NDArray[np.float64], boxes: npt.NDArray[np.float64]) -> float:
    best = 0.0
    for x0, y0, x1, y1 in boxes.tolist():
        inside = total = 0.0
        for i, row in enumerate(mask.tolist()):
            for j, value in enumerate(row):
                # A pixel is 4 x 4 little squares; the boxes' edges are in quarters, so each is in or out.
                for k in range(16):
                    y, x = i + (k // 4 + 0.5) / 4, j + (k % 4 + 0.5) / 4
                    inside += value / 16 if x0 < x < x1 and y0 < y < y1 else 0.0
                total += value
        if inside:
            precision, recall = inside / total, inside / ((x1 - x0) * (y1 - y0))
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


def test_iou_by_hand() -> None:
    # Two of 2 x 2 share 1 x 1: 1 / (4 + 4 - 1); inside: 1 / 4; touching: 0; apart in both directions: 0, not positive.
    others = [[1, 1, 3, 3], [0, 0, 1, 1], [2, 0, 4, 2], [5, 5, 6, 6]]
    np.testing.assert_array_equal(iou((0, 0, 2, 2), others), [1 / 7, 1 / 4, 0, 0])


def test_iou_of_empty_boxes_is_0() -> None:
    np.testing.assert_array_equal(iou((1, 1, 1, 1), [[1, 1, 1, 1], [0, 0, 2, 2]]), [0, 0])


def test_iou_with_no_boxes_is_empty() -> None:
    assert iou((0, 0, 1, 1), np.empty((0, 4))).shape == (0,)


@given(_boxes(), _boxes())
def test_iou_is_symmetric_between_0_and_1_and_1_only_for_itself(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    value = iou(a, [b])[0]
    assert value == iou(b, [a])[0] == pytest.approx(slow_iou(a, b))
    assert 0 <= value <= 1
    assert (value == 1) == (a == b)
    assert iou(a, [a])[0] == 1


def test_predicted_box_takes_the_largest_component() -> None:
    mask = np.zeros((6, 7))
    mask[0, 0] = 1.0  # brighter, but smaller, and apart
    mask[2:5, 3:5] = 0.6
    mask[5, 5] = 0.6  # joined by its corner
    assert predicted_box(mask) == (3, 2, 6, 6)


def test_predicted_box_follows_alpha() -> None:
    mask = np.array([[0.0, 0.2, 0.4, 0.6]])  # mean 0.3
    assert predicted_box(mask, alpha=0.5) == (1, 0, 4, 1)
    assert predicted_box(mask, alpha=1.0) == (2, 0, 4, 1)
    assert predicted_box(mask, alpha=3.0) is None


def test_localized_needs_more_than_the_threshold() -> None:
    truth = np.array([[0.0, 0, 4, 4]])
    assert localization_error([(0, 0, 2, 4)], [truth]) == 1  # IOU exactly 1/2
    assert localization_error([(0, 0, 2.001, 4)], [truth]) == 0
    assert localization_error([None], [truth]) == 1
    assert localization_error([(0, 0, 4, 4)], [np.empty((0, 4))]) == 1


def test_a_box_half_outside_the_crop_cannot_be_localized() -> None:
    """The flaw of cropping that the supplement names: all that is visible is marked, and it is an error."""
    truth = np.array([[-6.0, 0, 4, 8]])
    assert localization_error([(0, 0, 4, 8)], [truth]) == 1


def test_official_metric_needs_both() -> None:
    errors, right = np.array([0.0, 0.0, 1.0, 1.0]), np.array([True, False, True, False])
    np.testing.assert_array_equal(official_metric(errors, right), [0, 1, 1, 1])


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        localization_error([None, None], [np.array([[0.0, 0, 1, 1]])])


@settings(max_examples=150)
@given(st.lists(st.tuples(MASKS, BOX_LISTS, st.booleans()), min_size=1, max_size=3), st.sampled_from([0.5, 1.0, 1.5]))
def test_le_and_om_agree_with_loops(
    images: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], bool]], alpha: float
) -> None:
    expected = [slow_box(mask, alpha) for mask, _, _ in images]
    predicted = [predicted_box(mask, alpha) for mask, _, _ in images]
    assert predicted == expected

    localized = [
        box is not None and any(slow_iou(box, tuple(true)) > 0.5 for true in boxes.tolist())
        for box, (_, boxes, _) in zip(expected, images, strict=True)
    ]
    errors = localization_error(predicted, [boxes for _, boxes, _ in images])
    right = np.array([right for _, _, right in images])
    assert errors.tolist() == [0.0 if good else 1.0 for good in localized]
    assert official_metric(errors, right).tolist() == [
        0.0 if good and known else 1.0 for good, known in zip(localized, right, strict=True)
    ]


@st.composite
def _rectangles(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    """A mask of zeros and ones: up to three rectangles in a 12 x 12 image."""
    mask = np.zeros((12, 12))
    for _ in range(draw(st.integers(1, 3))):
        y, x = draw(st.integers(0, 10)), draw(st.integers(0, 10))
        mask[y : y + draw(st.integers(1, 6)), x : x + draw(st.integers(1, 6))] = 1
    return mask


def release_box(mask: npt.NDArray[np.float64]) -> tuple[int, int, int, int]:
    """The authors' program: the share mean(m) of the pixels, the highest, and the largest component joined by edges."""
    place = int((mask.size - 1) * (1 - mask.mean()) + 0.5)
    level = min(max(np.sort(mask, axis=None)[place], 1e-6), 1 - 1e-6)
    labels, _ = scipy.ndimage.label(mask > level)
    sizes = np.bincount(labels.ravel())[1:]
    assume((sizes == sizes.max()).sum() == 1)  # a tie is decided by the order of the labels
    rows, columns = np.nonzero(labels == 1 + sizes.argmax())
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


@given(_rectangles())
def test_masks_of_zeros_and_ones_have_the_box_of_the_authors_program(mask: npt.NDArray[np.float64]) -> None:
    corners = scipy.ndimage.label(mask, np.ones((3, 3)))[1]
    assume(corners == scipy.ndimage.label(mask)[1])  # casmap joins pixels by their corners, too
    assert predicted_box(mask) == release_box(mask)


def test_localization_error_by_hand() -> None:
    mask = np.zeros((8, 8))
    mask[2:6, 2:6] = 1
    boxes = [np.array([[2.0, 2, 6, 7]]), np.array([[0.0, 0, 8, 8]])]  # IOU 16/20 and 16/64
    np.testing.assert_array_equal(localization_error([predicted_box(mask)] * 2, boxes), [0, 1])


def test_f1_by_hand() -> None:
    mask = np.array([[0.5, 1.0], [0.25, 0.25]])
    # Inside the top row 1.5 of 2: P = 3/4, R = 1.5/2 = 3/4, F1 = 3/4. The lower row: P = 1/4, R = 1/4. The best counts.
    assert continuous_f1(mask, np.array([[0.0, 1, 2, 2], [0, 0, 2, 1]])) == pytest.approx(0.75)
    # Fractional: x from 0.5: 0.25 + 1 inside, P = 1.25/2, R = 1.25/1.5, F1 = 2 * 1.25 / 3.5
    assert continuous_f1(mask, np.array([[0.5, 0, 2, 1]])) == pytest.approx(2.5 / 3.5)
    # Half outside: the same 1.5 inside an area of 4: P = 3/4, R = 3/8, F1 = 1/2
    assert continuous_f1(mask, np.array([[0.0, -1, 2, 1]])) == pytest.approx(0.5)


def test_f1_of_a_wide_picture() -> None:
    # 2 of the 3 columns that hold the mask lie in the box of 2 x 1: P = 2/3, R = 1
    assert continuous_f1(np.array([[0.0, 0, 0, 1, 1, 1]]), np.array([[4.0, 0, 6, 1]])) == pytest.approx(0.8)


def test_f1_of_nothing_is_0() -> None:
    assert continuous_f1(np.zeros((2, 2)), np.array([[0.0, 0, 1, 1]])) == 0.0
    assert continuous_f1(np.zeros((2, 2)), np.array([[0.0, 0, 0, 0]])) == 0.0
    assert continuous_f1(np.ones((2, 2)), np.empty((0, 4))) == 0.0
    assert continuous_f1(np.ones((2, 2)), np.array([[5.0, 5, 6, 6]])) == 0.0


@settings(max_examples=60)
@given(MASKS, BOX_LISTS)
def test_f1_agrees_with_loops(mask: npt.NDArray[np.float64], boxes: npt.NDArray[np.float64]) -> None:
    assert continuous_f1(mask, boxes) == pytest.approx(slow_f1(mask, boxes))


def test_center_mask_covers_half_and_is_centred() -> None:
    mask = center_mask(60, 100)
    assert mask.sum() == pytest.approx(3000)
    np.testing.assert_allclose(mask, mask[::-1, ::-1], atol=1e-12)
    assert mask[30].sum() / mask[:, 50].sum() == pytest.approx(100 / 60)
    np.testing.assert_allclose(mask[0], 0)
    np.testing.assert_allclose(mask[9:51, 15:85], 1)  # from 8.79 to 51.21 and from 14.64 to 85.36


@pytest.mark.parametrize(("height", "width"), [(224, 224), (60, 100), (7, 5)])
def test_center_mask_is_the_center_box(height: int, width: int) -> None:
    mask = center_mask(height, width)
    assert mask.mean() == pytest.approx(0.5)
    assert predicted_box(mask) == tuple(round(edge) for edge in center_box(height, width))


def test_mask_iou_by_hand() -> None:
    binary = np.array([[1, 1, 1, 0], [0, 1, 0, 0]], bool)
    truth = np.array([[255, 0, 128, 255], [255, 255, 128, 0]], np.uint8)
    # Both: (0, 0) and (1, 1). Either: these, (0, 1) marked in vain, (0, 3) and (1, 0) missed. The 128s: neither.
    assert mask_iou(binary, truth) == 2 / 5
    assert mask_iou(np.ones((2, 4), bool), truth) == 4 / 6
    assert mask_iou(np.zeros((2, 4), bool), truth) == 0


def test_mask_iou_of_nothing_is_0() -> None:
    assert mask_iou(np.zeros((2, 2), bool), np.zeros((2, 2), np.uint8)) == 0
    assert mask_iou(np.ones((2, 2), bool), np.full((2, 2), 128, np.uint8)) == 0


def slow_mask_iou(binary: npt.NDArray[np.bool_], truth: npt.NDArray[np.uint8]) -> float:
    """Sets of pixels."""
    counted = {(i, j) for i, row in enumerate(truth.tolist()) for j, value in enumerate(row) if value != 128}
    marked = {place for place in counted if binary[place]}
    thing = {place for place in counted if truth[place] == 255}
    return len(marked & thing) / len(marked | thing) if marked | thing else 0.0


@given(BINARY, TRUTHS)
def test_mask_iou_agrees_with_sets_and_is_between_0_and_1(
    binary: npt.NDArray[np.bool_], truth: npt.NDArray[np.uint8]
) -> None:
    value = mask_iou(binary, truth)
    assert value == slow_mask_iou(binary, truth)
    assert 0 <= value <= 1


@given(BINARY, BINARY)
def test_mask_iou_is_1_for_equal_masks_only(a: npt.NDArray[np.bool_], b: npt.NDArray[np.bool_]) -> None:
    assume(b.any())
    truth = b.astype(np.uint8) * 255
    assert mask_iou(b, truth) == 1
    assert (mask_iou(a, truth) == 1) == bool((a == b).all())


@given(BINARY, BINARY, TRUTHS)
def test_what_is_marked_where_nothing_counts_never_matters(
    binary: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_], truth: npt.NDArray[np.uint8]
) -> None:
    assert mask_iou(np.where(truth == 128, other, binary), truth) == mask_iou(binary, truth)
