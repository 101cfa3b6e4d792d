import hashlib
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.wsol_metrics import (
    EDGES,
    at_best_threshold,
    average_precision,
    box_accuracy,
    contour_boxes,
    is_tuning,
    pixel_histograms,
)

DELTAS = (0.3, 0.5, 0.7)
MASKS = arrays(np.float32, (9, 9), elements=st.integers(0, 20).map(lambda value: np.float32(value / 20)))
BOXES = st.lists(st.tuples(*[st.integers(0, 6)] * 2, *[st.integers(1, 4)] * 2), min_size=1, max_size=3).map(
    lambda corners: np.array([(x, y, x + width, y + height) for x, y, width, height in corners], np.float64)
)


def pxap(masks: npt.NDArray[np.floating], truths: npt.NDArray[np.uint8]) -> float:
    """Pixel average precision over all pixels of all images: (N, H, W), (N, H, W) of 0, 255 or 128 (ignored)."""
    histograms = [pixel_histograms(mask, truth) for mask, truth in zip(masks, truths, strict=True)]
    return average_precision(np.sum(histograms, axis=0))


def test_tuning_is_the_hash_of_the_name() -> None:
    # SHA-256 of "abc" begins ba7816bf, 0.7284 of the way; that of "" begins e3b0c442, 0.8894.
    assert hashlib.sha256(b"abc").hexdigest().startswith("ba7816bf")
    assert not is_tuning("abc", share=0.72)
    assert is_tuning("abc", share=0.73)
    assert not is_tuning("", share=0.88)
    assert is_tuning("", share=0.89)


def test_about_a_fifth_tunes() -> None:
    share = np.mean([is_tuning(f"photo-{number}.jpg", 0.2) for number in range(5000)])
    assert share == pytest.approx(0.2, abs=0.02)  # 3.5 standard deviations


# ------------------------------------------------------------------ wsolevaluation, written anew from its definitions


def oracle_ious(found: list[list[int]], true: list[list[float]]) -> list[float]:
    """The best IOU of each box with a true one; both include their last pixel."""
    best = []
    for x0, y0, x1, y1 in found:
        values = []
        for a0, b0, a1, b1 in true:
            both = max(0, min(x1, a1) - max(x0, a0) + 1) * max(0, min(y1, b1) - max(y0, b0) + 1)
            either = (x1 - x0 + 1) * (y1 - y0 + 1) + (a1 - a0 + 1) * (b1 - b0 + 1) - both
            values.append(both / either)
        best.append(max(values))
    return best


def oracle_score_map(mask: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if mask.min() == mask.max():
        return np.zeros_like(mask)
    return (mask - mask.min()) / (mask - mask.min()).max()


def oracle_accuracy(mask: npt.NDArray[Any], boxes: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """(3, 1000): one contour after the other at one threshold after the other."""
    grey = (oracle_score_map(mask.astype(np.float64)) * 255).astype(np.uint8)
    height, width = grey.shape
    columns = []
    for step in range(1000):
        level = int(step * 0.001 * int(grey.max()))
        contours, _ = cv2.findContours((grey > level).astype(np.uint8), cv2.RETR_TREE, cv2.CHAIN_APPROX_SIMPLE)
        found = []
        for contour in contours:
            x, y, w, h = cv2.boundingRect(contour)
            found.append([x, y, min(x + w, width - 1), min(y + h, height - 1)])
        best = max(oracle_ious(found or [[0, 0, 0, 0]], boxes.tolist()))
        columns.append([best >= delta for delta in DELTAS])
    return np.array(columns).T


def oracle_pxap(masks: list[npt.NDArray[Any]], truths: list[npt.NDArray[np.uint8]]) -> float:
    edges = [*np.arange(0, 1, 0.001), 1.0, 2.0, 3.0]
    true, false = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for mask, truth in zip(masks, truths, strict=True):
        scores = oracle_score_map(mask.astype(np.float64))
        true += np.histogram(scores[truth == 255], edges)[0]
        false += np.histogram(scores[truth == 0], edges)[0]
    area = last = 0.0
    for bin_ in reversed(range(len(true))):
        hits, misses = true[bin_:].sum(), false[bin_:].sum()
        if hits + misses:
            area += (hits / true.sum() - last) * hits / (hits + misses)
        last = hits / true.sum()
    return area


@settings(max_examples=15, deadline=None)
@given(MASKS, BOXES)
def test_box_accuracy_is_that_of_wsolevaluation(mask: npt.NDArray[Any], boxes: npt.NDArray[np.float64]) -> None:
    np.testing.assert_array_equal(box_accuracy(mask, boxes), oracle_accuracy(mask, boxes))


def test_box_accuracy_of_smooth_masks_is_that_of_wsolevaluation() -> None:
    random = np.random.default_rng(0)
    some = 0
    for _ in range(4):
        mask = cv2.GaussianBlur(random.standard_normal((64, 64)).astype(np.float32), (0, 0), 6)
        boxes = np.array([[20.0, 10, 50, 40], [0, 0, 30, 63]])
        expected = oracle_accuracy(mask, boxes)
        np.testing.assert_array_equal(box_accuracy(mask, boxes), expected)
        some += expected.any() and not expected.all()
    assert some  # or the comparison would say little


@settings(max_examples=30, deadline=None)
@given(st.lists(MASKS, min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_pxap_is_that_of_wsolevaluation(masks: list[npt.NDArray[Any]], seed: int) -> None:
    values = np.array([0, 128, 255], np.uint8)
    truths = [np.random.default_rng(seed + i).choice(values, mask.shape) for i, mask in enumerate(masks)]
    assert pxap(masks, truths) == pytest.approx(oracle_pxap(masks, truths))


# ------------------------------------------------------------------------------------------------------------ boxes


def test_a_hole_gives_a_box_too() -> None:
    """A frame around the image: the frame, and the contour around its hole."""
    grey = np.full((7, 7), 9, np.uint8)
    grey[2:5, 2:5] = 0
    assert sorted(contour_boxes(grey, 5).tolist()) == [[0, 0, 6, 6], [1, 1, 6, 6]]


def test_without_a_pixel_there_is_a_box_of_one_pixel() -> None:
    """Choe et al. answer so for a flat mask."""
    assert contour_boxes(np.zeros((5, 5), np.uint8), 0).tolist() == [[0, 0, 0, 0]]
    flat = np.full((5, 5), 0.3)
    assert box_accuracy(flat, np.array([[0.0, 0, 0, 0]])).all()
    assert not box_accuracy(flat, np.array([[0.0, 0, 3, 3]])).any()


def test_any_contour_may_find_any_box() -> None:
    mask = np.zeros((5, 12))
    mask[1, 1], mask[1:4, 5:8] = 1, 1  # boxes to 2, 2 and to 8, 4
    one_of_them = np.array([[1.0, 1, 2, 2]])
    assert box_accuracy(mask, one_of_them)[:, 500].all()
    assert box_accuracy(mask, np.array([[5.0, 1, 8, 4], [11, 4, 11, 4]]))[:, 500].all()


def test_the_best_threshold_is_chosen_for_each_iou() -> None:
    correct = np.zeros((2, 3, 4), bool)
    correct[:, 0, 2], correct[0, 1, 3], correct[1, 2, 1] = True, True, True
    np.testing.assert_allclose(at_best_threshold(correct, np.array([True, True])), [2 / 3, 2 / 3])
    # Chosen on the first: the third IOU takes the lowest threshold, at which none is correct.
    np.testing.assert_allclose(at_best_threshold(correct, np.array([True, False])), [2 / 3, 1 / 3])


def test_photos_that_are_not_asked_do_not_choose() -> None:
    random = np.random.default_rng(0)
    correct, choosing = random.random((6, 3, 20)) < 0.5, np.array([True, False] * 3)
    before = at_best_threshold(correct, choosing)[choosing]
    correct[~choosing] = random.random((3, 3, 20)) < 0.5
    np.testing.assert_array_equal(at_best_threshold(correct, choosing)[choosing], before)


# ------------------------------------------------------------------------------------------------------------ pixels


def test_histograms_by_hand() -> None:
    mask = np.array([[1.0, 2.0, 3.0], [5.0, 8.75, 9.0]])  # normalised: 0, 1/8, 1/4, 1/2, 31/32, 1
    truth = np.array([[0, 255, 128], [0, 255, 255]], dtype=np.uint8)
    edges = np.array([0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(pixel_histograms(mask, truth, edges), [[1, 0, 1, 0, 0], [1, 0, 0, 1, 1]])


def test_average_precision_by_hand() -> None:
    # From the top: 2 true, 0 false: P 1, R 1/2; 2 true, 2 false: recall stays; 4 true, 3 false: P 4/7, R 1.
    assert average_precision(np.array([[1, 2, 0], [2, 0, 2]])) == pytest.approx(1 / 2 + 1 / 2 * 4 / 7)


def test_empty_bins_above_the_pixels_do_not_matter() -> None:
    assert average_precision(np.array([[1, 0, 0], [0, 1, 0]])) == 1.0


def test_no_object_is_said() -> None:
    with pytest.raises(ValueError, match="object"):
        average_precision(np.array([[3, 1], [0, 0]]))


def test_pxap_by_hand() -> None:
    truth = np.array([[[255, 0, 255]]], dtype=np.uint8)
    assert pxap(np.array([[[0.9, 0.5, 0.1]]]), truth) == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)


def test_a_flat_mask_gives_the_share_of_the_object() -> None:
    truth = np.array([[[255, 0, 0, 0, 128]]], dtype=np.uint8)
    assert pxap(np.full((1, 1, 5), 0.7), truth) == pytest.approx(1 / 4)


@given(
    arrays(np.float64, (2, 5, 5), elements=st.sampled_from(EDGES.tolist())),
    arrays(np.uint8, (2, 5, 5), elements=st.sampled_from([0, 128, 255])),
)
def test_pxap_agrees_with_ranking_every_pixel(masks: npt.NDArray[np.float64], truths: npt.NDArray[np.uint8]) -> None:
    """Sort all counted pixels by score; a group of equal scores is one step of the curve."""
    masks[:, 0, 0], masks[:, 0, 1] = 0.0, 1.0  # normalised already, at the lower edges of the bins
    counted = [(round(s * 1000), t) for s, t in zip(masks.ravel(), truths.ravel(), strict=True) if t != 128]
    objects = sum(t == 255 for _, t in counted)
    assume(objects > 0)
    expected = last_recall = 0.0
    for threshold in sorted({s for s, _ in counted}, reverse=True):
        kept = [t == 255 for s, t in counted if s >= threshold]
        recall = sum(kept) / objects
        expected += (recall - last_recall) * sum(kept) / len(kept)
        last_recall = recall
    assert pxap(masks, truths) == pytest.approx(expected)


def test_histograms_of_images_add_up() -> None:
    random = np.random.default_rng(1)
    masks, truths = random.random((3, 9, 9)), random.choice(np.array([0, 128, 255], np.uint8), (3, 9, 9))
    masks[:, 0, 0], masks[:, 0, 1] = 0.0, 1.0  # normalised already, so that all of them are one picture
    histograms = np.stack([pixel_histograms(m, t) for m, t in zip(masks, truths, strict=True)])
    assert histograms.sum() == (truths != 128).sum()
    together = pixel_histograms(np.concatenate(masks), np.concatenate(truths))
    np.testing.assert_array_equal(histograms.sum(axis=0), together)
    assert pxap(masks, truths) == average_precision(together)
