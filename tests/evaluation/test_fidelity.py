"""Fidelity of maps to a judge whose reasons are known: it looks at one quarter of the image only."""

import numpy as np
import pytest

from casmap.evaluation.blind import random_system
from casmap.evaluation.fidelity import (
    DELETION,
    ENERGY,
    INSERTION,
    METRIC,
    POINTING,
    ROAD,
    Judge,
    inside,
    measure_fidelity,
)
from casmap.inference.components import PAPER

SIDE = 32
UPPER_LEFT = (slice(0, SIDE // 2), slice(0, SIDE // 2))


def judge_of_a_quarter(inputs):
    """Logits 0 and, for class 1, how bright the upper left quarter is."""
    bright = inputs[:, :, *UPPER_LEFT].mean(axis=(1, 2, 3))
    return np.stack([np.zeros(len(inputs)), 8 * bright - 4], axis=1)


JUDGE = Judge("quarter", ["dark", "bright"], (0.0,) * 3, (1.0,) * 3, judge_of_a_quarter)


@pytest.fixture
def images():
    """White upper left quarters on black, with noise."""
    random = np.random.default_rng(0)
    found = random.integers(0, 20, (4, SIDE, SIDE, 3)).astype(np.uint8)
    found[:, *UPPER_LEFT] = 235
    return found


@pytest.fixture
def evidence():
    masks = np.zeros((4, SIDE, SIDE), np.float32)
    masks[:, *UPPER_LEFT] = 1
    return masks


BOXES = [np.array([[0.0, 0, SIDE / 2, SIDE / 2]])] * 4


def values(name, masks, images):
    row = measure_fidelity(name, masks, images, np.ones(4, np.int64), JUDGE, BOXES, PAPER)
    return {key: number.value for key, number in row.numbers.items()}


def test_the_evidence_beats_its_opposite_and_random_maps_in_all_measures(images, evidence):
    right, wrong = values("right", evidence, images), values("wrong", 1 - evidence, images)
    chance = values("random", random_system(images)[0], images)
    for key, sign in ((INSERTION, 1), (DELETION, -1), (ROAD, 1), (METRIC, -1), (POINTING, 1), (ENERGY, 1)):
        assert sign * right[key] > sign * chance[key], key
        assert sign * right[key] > sign * wrong[key], key
    assert (right[POINTING], right[ENERGY], wrong[POINTING], wrong[ENERGY]) == (1, 1, 0, 0)


def test_deletion_by_hand(images, evidence):
    """The quarter is gone after 2.5 of 10 steps; at each, the share of it that is left decides."""
    row = measure_fidelity("right", evidence, images, np.ones(4, np.int64), JUDGE, None, PAPER)
    left = [max(0.0, 1 - 4 * (k * SIDE**2 // 10) / SIDE**2) for k in range(11)]
    curve = np.array([1 / (1 + np.exp(4 - 8 * 235 / 255 * share)) for share in left])
    expected = (curve.sum() - (curve[0] + curve[-1]) / 2) / 10
    np.testing.assert_allclose(row.values[DELETION], expected, atol=1e-4)
    assert POINTING not in row.numbers  # no boxes


def test_the_saliency_metric_by_hand(images, evidence):
    """The crop is white all over; the box is a quarter of the image."""
    probability = 1 / (1 + np.exp(4 - 8 * 235 / 255))
    row = measure_fidelity("right", evidence, images, np.ones(4, np.int64), JUDGE, None, PAPER)
    np.testing.assert_allclose(row.values[METRIC], np.log(0.25) - np.log(probability), atol=1e-5)


def test_the_judge_is_asked_about_the_photos_class_or_about_its_own(images):
    assert JUDGE.targets(images, ["dark", "bright", "dark", "dark"]).tolist() == [0, 1, 0, 0]
    assert JUDGE.targets(images, ["cat", "bright", "dark", "dark"]).tolist() == [1, 1, 1, 1]
    assert JUDGE.targets(255 - images, ["cat"] * 4).tolist() == [0, 0, 0, 0]


def test_log_probabilities_are_a_softmax():
    logs = JUDGE.log_probabilities(np.full((1, 3, SIDE, SIDE), 0.5, np.float32))
    np.testing.assert_allclose(np.exp(logs), [[0.5, 0.5]])


def test_a_mask_without_a_value_has_the_whole_image_as_its_box(images):
    found = values("empty", np.zeros((4, SIDE, SIDE), np.float32), images)
    assert found[POINTING] == found[ENERGY] == 0.25
    assert np.isfinite(list(found.values())).all()


def test_pixels_belong_to_a_box_by_their_centre():
    region = inside(np.array([[0.0, 0, 1.4, 2], [2.6, 2.5, 9, 3.5]]), 4)
    assert region.astype(int).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
