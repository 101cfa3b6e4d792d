"""Choe et al.'s protocol by hand: squashed photos, whole pixels of a square of 224, thresholds held out or not."""

import numpy as np
import pytest

from casmap.data.photos import Annotation
from casmap.evaluation.evaluate import localization_errors, map_photos
from casmap.evaluation.wsol_metrics import box_accuracy, is_tuning
from casmap.evaluation.wsol_protocol import HELD_OUT, PXAP, SQUASHED, V2, measure_wsol


class Photos:
    """Photos of 112 x 448 pixels (height x width) with one box each, and its pixels as mask."""

    def __init__(self, boxes, masks=True):
        self.boxes, self.masks, self.classes = boxes, masks, ["a"]
        self.labels, self.names = np.zeros(len(boxes), np.int64), [f"{number}.png" for number in range(len(boxes))]

    def __len__(self):
        return len(self.names)

    def image(self, index, least=None):
        return np.zeros((112, 448, 3), np.uint8)

    def annotation(self, index):
        x0, y0, x1, y1 = self.boxes[index]
        mask = np.zeros((112, 448), np.uint8)
        mask[y0:y1, x0:x1] = 255
        return Annotation(np.array([self.boxes[index]], np.float64), mask=mask if self.masks else None)


def measured(system, photos, size=224):
    return measure_wsol("mine", map_photos(system, photos, size, "squash"))


def left(images):
    """The left quarter is 1, the next 0.5."""
    masks = np.zeros(images.shape[:3], np.float32)
    quarter = images.shape[1] // 4
    masks[:, :, :quarter], masks[:, :, quarter : 2 * quarter] = 1, 0.5
    return masks, None


def test_by_hand():
    """x / 2 and 2 y. The quarters become columns 0 to 56 and 0 to 112, both included, of 224."""
    photos = Photos([(0, 0, 112, 112), (0, 0, 224, 112), (0, 0, 40, 112), (440, 0, 448, 112)])
    found = measured(left, photos)
    # Of 57 or 113 columns. High threshold: IOU 1, 57 / 113 = 0.504, 21 / 57 = 0.37 and none; low: 0.504, 1, 21 / 113
    # and none (all times 224 / 225 rows). IOU 0.3 takes the high one; 0.5 and 0.7 have a tie, and take the low one.
    assert found.values[V2].tolist() == pytest.approx([2 / 3, 1, 1 / 3, 0])
    assert found.numbers[V2].value == pytest.approx(1 / 2)
    assert found.name == "mine"


def test_boxes_become_whole_pixels():
    """3 / 2 = 1.5 counts as 1, so the box is columns 1 to 55 of 0 to 56."""
    mask = left(np.zeros((1, 224, 224, 3)))[0][0]
    expected = box_accuracy(mask, np.array([[1.0, 0, 55, 224]]))
    photos = Photos([(3, 0, 111, 112)])
    assert measured(left, photos).values[V2][0] == expected[:, [0, 999]].any(axis=1).mean()


def test_held_out_thresholds_come_from_the_other_half():
    """The photos of one half fit the upper threshold only, the others the lower one: what helps one half harms both."""
    names = [f"{number}.png" for number in range(20)]
    boxes = [(0, 0, 112, 112) if is_tuning(name, 0.5) else (0, 0, 224, 112) for name in names]
    found = measured(left, Photos(boxes))
    assert found.values[HELD_OUT].tolist() == pytest.approx([2 / 3] * 20)  # 57 / 113 is above 0.5 and below 0.7
    assert found.numbers[V2].value > found.numbers[HELD_OUT].value


def test_with_photos_in_one_half_no_threshold_is_held_out():
    assert HELD_OUT not in measured(left, Photos([(0, 0, 112, 112)])).numbers


def test_pxap_needs_masks():
    boxes = [(0, 0, 112, 112), (0, 0, 224, 112)]
    assert PXAP not in measured(left, Photos(boxes, masks=False)).numbers
    # From the top: a quarter of the pixels, all of objects; the next quarter, half of them; then the rest.
    assert measured(left, Photos(boxes)).numbers[PXAP].value == pytest.approx(2 / 3 * 1 + 1 / 3 * 3 / 4)


def test_a_constant_mask_has_no_box_at_any_size():
    """Cubic interpolation of a constant gives other values by rounding, which would be stretched to 0..1."""

    def constant(images):
        return np.full(images.shape[:3], 0.3, np.float32), None

    photos = Photos([(0, 0, 224, 224)])
    assert [measured(constant, photos, size=size).numbers[V2].value for size in (112, 224, 288)] == [0, 0, 0]


def test_smaller_squares_are_enlarged():
    photos = Photos([(0, 0, 112, 112), (0, 0, 224, 112)])
    whole, half = measured(left, photos), measured(left, photos, size=112)
    assert half.numbers[V2].value == whole.numbers[V2].value


def test_le_is_that_of_the_squashed_photo():
    photos = Photos([(0, 0, 112, 112), (0, 0, 224, 112), (300, 0, 448, 112)])
    expected = localization_errors(map_photos(left, photos, 224, "squash"), alpha=1.0)
    assert measured(left, photos).values[SQUASHED].tolist() == expected.tolist() == [1, 0, 1]
