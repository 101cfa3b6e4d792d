import hashlib

import numpy as np
import numpy.typing as npt
import pytest
import scipy.ndimage
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.evaluation.wsol_metrics import average_precision, is_tuning, max_box_acc_v2, pixel_histograms

DELTAS = (0.3, 0.5, 0.7)
MASKS = arrays(np.float64, (4, 6, 6), elements=st.integers(0, 20).map(lambda value: value / 20))


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
    share = np.mean([is_tuning(f"photo-{number}.jpg") for number in range(5000)])
    assert share == pytest.approx(0.2, abs=0.02)  # 3.5 standard deviations


def test_max_box_acc_by_hand() -> None:
    # Left half 1, a rim of 0.5. True box: the left half, 2 x 2 of a 2 x 4 picture.
    mask = np.array([[1.0, 1.0, 0.5, 0.0], [1.0, 1.0, 0.5, 0.0]])
    box = np.array([[0.0, 0, 2, 2]])
    # tau 0: the whole, IOU 1/2: enough for 0.3 and 0.5. tau 0.02 to 0.5: 2/3. Above: 1, so 0.7 takes tau 0.52.
    scores, thresholds = max_box_acc_v2(np.stack([mask, mask, 1 - mask]), [box] * 3, np.array([True, False, False]))
    assert thresholds == {0.3: 0.0, 0.5: 0.0, 0.7: 0.52}
    # The mask upside down is normalised already; at 0.52 it is the right column, which meets the box nowhere.
    np.testing.assert_allclose(scores, [1.0, 2 / 3])


def test_any_component_may_find_any_box() -> None:
    mask = np.array([[1.0, 0, 1, 1, 1, 0, 0, 0]])
    boxes = np.array([[6.0, 0, 8, 1], [0, 0, 1, 1]])  # the smaller component is the second box
    scores, _ = max_box_acc_v2(np.stack([mask, mask]), [boxes, boxes], np.array([True, False]))
    np.testing.assert_array_equal(scores, [1.0])


def test_corners_join_components() -> None:
    mask = np.eye(3)
    scores, _ = max_box_acc_v2(np.stack([mask, mask]), [np.array([[0.0, 0, 1, 1]])] * 2, np.array([True, False]))
    np.testing.assert_array_equal(scores, [0.0])  # with 4 neighbours the first pixel alone would find the box


def test_equal_iou_is_a_success_here() -> None:
    """Choe et al. count IOU >= delta, where the paper's LE wants it higher."""
    mask, box = np.array([[1.0, 1.0]]), np.array([[0.0, 0, 1, 1]])
    scores, _ = max_box_acc_v2(np.stack([mask, mask]), [box, box], np.array([True, False]))
    np.testing.assert_allclose(scores, [2 / 3])


def test_masks_are_normalised_image_by_image() -> None:
    mask, box = np.array([[1.0, 0.6, 0.0]]), np.array([[0.0, 0, 1, 1]])
    faint = mask * 0.01 + 0.3
    _, bright_taus = max_box_acc_v2(np.stack([mask, mask]), [box, box], np.array([True, False]))
    scores, faint_taus = max_box_acc_v2(np.stack([faint, mask]), [box, box], np.array([True, False]))
    assert faint_taus == bright_taus
    np.testing.assert_array_equal(scores, [1.0])


@pytest.mark.parametrize("tuning", [[True, True], [False, False]])
def test_both_parts_must_have_images(tuning: list[bool]) -> None:
    with pytest.raises(ValueError, match="others to score"):
        max_box_acc_v2(np.ones((2, 2, 2)), [np.array([[0.0, 0, 1, 1]])] * 2, np.array(tuning))


def slow_success(mask: npt.NDArray[np.float64], boxes: npt.NDArray[np.float64], tau: float, delta: float) -> bool:
    peak, bottom = mask.max(), mask.min()
    normal = (mask - bottom) / (peak - bottom) if peak > bottom else np.zeros_like(mask)
    labels, _ = scipy.ndimage.label(normal >= tau, structure=np.ones((3, 3)))
    for rows, columns in scipy.ndimage.find_objects(labels):
        for x0, y0, x1, y1 in boxes.tolist():
            width = min(columns.stop, x1) - max(columns.start, x0)
            height = min(rows.stop, y1) - max(rows.start, y0)
            both = max(width, 0) * max(height, 0)
            own = (columns.stop - columns.start) * (rows.stop - rows.start)
            if both / (own + (x1 - x0) * (y1 - y0) - both) >= delta:
                return True
    return False


@settings(max_examples=40)
@given(MASKS, st.integers(0, 2**32 - 1))
def test_the_chosen_tau_is_the_best_there_is(masks: npt.NDArray[np.float64], seed: int) -> None:
    corners = np.random.default_rng(seed).integers(0, 4, size=(4, 2, 2))
    boxes = [np.concatenate([corner, corner + 1 + corner[::-1]], axis=1).astype(float) for corner in corners]
    tuning = np.array([True, False, True, False])
    scores, thresholds = max_box_acc_v2(masks, boxes, tuning)
    taus = [step / 50 for step in range(51)]
    for delta in DELTAS:
        successes = [sum(slow_success(masks[i], boxes[i], tau, delta) for i in (0, 2)) for tau in taus]
        assert thresholds[delta] == taus[successes.index(max(successes))]
    expected = [np.mean([slow_success(masks[i], boxes[i], thresholds[d], d) for d in DELTAS]) for i in (1, 3)]
    np.testing.assert_allclose(scores, expected)


def test_scored_images_do_not_choose() -> None:
    random = np.random.default_rng(0)
    masks, boxes = random.random((6, 8, 8)), [np.array([[1.0, 1, 5, 6]])] * 6
    tuning = np.array([True, False] * 3)
    _, before = max_box_acc_v2(masks, boxes, tuning)
    masks[~tuning] = random.random((3, 8, 8)) ** 4
    _, after = max_box_acc_v2(masks, boxes, tuning)
    assert before == after


def test_histograms_by_hand() -> None:
    mask = np.array([[1.0, 2.0, 3.0], [5.0, 8.75, 9.0]])  # normalised: 0, 1/8, 1/4, 1/2, 31/32, 1
    truth = np.array([[0, 255, 128], [0, 255, 255]], dtype=np.uint8)
    np.testing.assert_array_equal(pixel_histograms(mask, truth, bins=5), [[1, 0, 1, 0, 0], [1, 0, 0, 1, 1]])


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
    arrays(np.float64, (2, 5, 5), elements=st.integers(0, 1000).map(lambda value: value / 1000)),
    arrays(np.uint8, (2, 5, 5), elements=st.sampled_from([0, 128, 255])),
)
def test_pxap_agrees_with_ranking_every_pixel(masks: npt.NDArray[np.float64], truths: npt.NDArray[np.uint8]) -> None:
    """Sort all counted pixels by score; a group of equal scores is one step of the curve."""
    masks[:, 0, 0], masks[:, 0, 1] = 0.0, 1.0  # normalised already, and thousandths are the bins
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
