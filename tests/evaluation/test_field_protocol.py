"""GT-known localization accuracy by hand: squashed, cropped, boxes clipped, IOU of at least one half."""

import numpy as np
import pytest

from casmap.data.photos import Annotation
from casmap.evaluation.evaluate import map_photos, measure_masks, whole_system
from casmap.evaluation.field_protocol import gt_known, measure_field_protocol


class Photos:
    """Photos of 64 x 128 pixels (height x width) with one box each."""

    def __init__(self, boxes):
        self.boxes, self.classes, self.labels = boxes, ["a"], np.zeros(len(boxes), np.int64)
        self.names = [f"{number}.png" for number in range(len(boxes))]

    def __len__(self):
        return len(self.names)

    def image(self, index, least=None):
        return np.zeros((64, 128, 3), np.uint8)

    def annotation(self, index):
        return Annotation(np.array(self.boxes[index], np.float64))


def measured(system, boxes):
    return measure_field_protocol("mine", map_photos(system, Photos(boxes), 28, "squash and crop"))


def test_an_iou_of_one_half_is_enough():
    assert gt_known(np.array([0.0, 0.499, 0.5, 1.0])).tolist() == [0, 0, 1, 1]


def test_by_hand():
    """Squashed to 32 x 32 and cut by 2 at each edge: x / 4 - 2 and y / 2 - 2, clipped to 28 x 28."""
    boxes = [
        [[0, 0, 128, 64]],  # all of the crop: IOU 1
        [[0, 0, 64, 64]],  # 0 to 14 of 28 columns: exactly 1/2
        [[0, 0, 60, 64]],  # 0 to 13 of 28: less
        [[0, 0, 8, 4], [8, 0, 128, 64]],  # one is cut off, the other is all of the crop
        [[0, 0, 8, 64]],  # outside the crop: nothing is left of it
    ]
    found = measured(whole_system, boxes)
    assert found.values["GT-known"].tolist() == [1, 1, 0, 1, 0]
    assert found.numbers["GT-known"].value == pytest.approx(3 / 5)
    assert found.name == "mine"


def test_the_rules_differ():
    """The left half is 0.45, the right half 0.25: the mean is 0.35."""

    def faint(images):
        masks = np.full(images.shape[:3], 0.25, np.float32)
        masks[:, :, :14] = 0.45
        return masks, None

    found = measured(faint, [[[0, 0, 64, 64]], [[0, 0, 128, 64]]])
    assert found.values["GT-known"].tolist() == [1, 1]  # the left half
    assert found.values["GT-known, threshold 0.5"].tolist() == [0, 0]  # nothing reaches 0.5


def test_it_is_not_the_papers_number():
    """The object fills the left half of a wide photo: the papers' crops show other parts of it."""
    photos = Photos([[[0, 0, 64, 64]]])
    le = measure_masks("mine", map_photos(whole_system, photos, 28, "crop")).numbers["LE"].value
    assert (le, measured(whole_system, photos.boxes).numbers["GT-known"].value) == (1, 1)
