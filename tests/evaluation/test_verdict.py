"""The rules of the verdict, each by itself."""

import numpy as np
import pytest

from casmap.evaluation.numbers import Number
from casmap.evaluation.verdict import FEWEST, judge

CERTAIN, CHANCE, WORSE = Number(1.0, 0.5, 1.5), Number(0.1, -0.2, 0.4), Number(-0.3, -0.5, 0.0)
RIGHT = {"whole": 0.9, "masked-in": 0.8, "inpainted": 0.1}


def objects(count: int = 30) -> np.ndarray:
    """Boxes of several sizes at several places."""
    rng, masks = np.random.default_rng(0), np.zeros((count, 56, 56), np.float32)
    for mask in masks:
        side = rng.integers(12, 30)
        row, column = rng.integers(0, 56 - side, 2)
        mask[row : row + side, column : column + side] = 1
    return masks


def verdict(masks=None, accuracy=RIGHT, sampled=30, agreement=None, **gains):
    masks = objects() if masks is None else masks
    correct = {version: np.full(len(masks), share) for version, share in accuracy.items()}
    gains = {"centred": CERTAIN, "random": CERTAIN, "exchanged": CERTAIN} | gains
    return judge(masks, np.zeros(len(masks), np.int64), ["x"], correct, gains, sampled, agreement)


def test_masks_that_gain_over_all_controls_are_good() -> None:
    assert verdict().verdict == "good"
    assert verdict().reasons == ()
    assert verdict().to_json()["gain"]["random"] == [1.0, 0.5, 1.5]


@pytest.mark.parametrize(
    ("control", "gain", "expected"),
    [
        ("random", CHANCE, "failed"), ("exchanged", CHANCE, "failed"), ("centred", CHANCE, "doubtful"),
        ("random", WORSE, "failed"), ("exchanged", WORSE, "failed"), ("centred", WORSE, "failed"),
    ],
)  # fmt: skip
def test_a_gain_that_may_be_chance(control, gain, expected) -> None:
    found = verdict(**{control: gain})
    assert found.verdict == expected
    (reason,) = found.reasons
    assert f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]" in reason


def test_with_few_photos_chance_is_a_doubt() -> None:
    assert verdict(sampled=FEWEST - 1, random=CHANCE).verdict == "doubtful"
    assert verdict(sampled=FEWEST - 1, random=WORSE).verdict == "failed"


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [
        ({"whole": 0.4, "masked-in": 0.4, "inpainted": 0.1}, "can hardly judge"),
        ({"whole": 0.9, "masked-in": 0.5, "inpainted": 0.1}, "miss evidence"),
        ({"whole": 0.9, "masked-in": 0.9, "inpainted": 0.5}, "outside the masks"),
    ],
)
def test_what_the_classifier_says_is_a_doubt(accuracy, words) -> None:
    found = verdict(accuracy=accuracy)
    assert found.verdict == "doubtful"
    assert words in found.reasons[0]


def test_masks_of_one_area_are_a_doubt() -> None:
    masks = np.stack([np.roll(objects(1)[0], (7 * n, 11 * n), axis=(0, 1)) for n in range(30)])
    assert "about the same share" in " ".join(verdict(masks).reasons)


def test_masks_that_are_nothing_or_everything_fail_in_one_sentence() -> None:
    mixed = np.concatenate([np.zeros((10, 56, 56)), np.ones((10, 56, 56)), objects(10)])
    for masks in (np.zeros((30, 56, 56)), np.ones((30, 56, 56)), mixed):
        found = verdict(masks, random=WORSE)
        assert found.verdict == "failed"
        assert len(found.reasons) == 1
