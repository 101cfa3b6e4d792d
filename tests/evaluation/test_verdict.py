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


def verdict(masks=None, accuracy=RIGHT, sampled=30, agreement=None, classes=None, **gains):
    masks = objects() if masks is None else masks
    correct = {version: np.full(len(masks), share) for version, share in accuracy.items()}
    gains = {"centred": CERTAIN, "random": CERTAIN, "exchanged": CERTAIN} | gains
    names, labels = ["ill", "normal"], np.zeros(len(masks), np.int64)
    return judge(masks, labels, names, correct, gains, sampled, agreement, classes or {})


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


def test_a_class_with_a_certain_gain_makes_chance_a_doubt() -> None:
    """Normal scans have no place that shows their class, and they are in the mean over all photos."""
    ill, normal = {"random": CERTAIN, "exchanged": CERTAIN, "centred": WORSE}, {"random": CHANCE, "exchanged": CHANCE}
    found = verdict(exchanged=CHANCE, classes={"ill": ill, "normal": normal})
    assert found.verdict == "doubtful"
    assert "may be no better than those of other photos" in found.reasons[0]
    assert found.reasons[1] == "The masks certainly gain in the photos of ill."
    assert found.to_json()["gain in classes"]["ill"]["random"] == [1.0, 0.5, 1.5]


def test_where_each_class_gains_no_class_is_named() -> None:
    certain = {"random": CERTAIN, "exchanged": CERTAIN}
    found = verdict(exchanged=CHANCE, classes={"ill": certain, "normal": certain})
    assert found.reasons[1] == "The masks certainly gain in each class alone."


@pytest.mark.parametrize("gain", [CHANCE, WORSE])
def test_a_class_must_gain_over_all_that_photos_share(gain) -> None:
    """Masks of other photos of a class may gain over random masks: lesions are often at the same place."""
    for control in ("random", "exchanged"):
        classes = {"ill": {"random": CERTAIN, "exchanged": CERTAIN} | {control: gain}}
        assert verdict(exchanged=CHANCE, classes=classes).verdict == "failed"


@pytest.mark.parametrize("control", ["centred", "random", "exchanged"])
def test_a_class_does_not_make_up_for_masks_that_are_worse(control) -> None:
    classes = {"ill": {"random": CERTAIN, "exchanged": CERTAIN}}
    assert verdict(**{control: WORSE}, classes=classes).verdict == "failed"


def test_a_class_that_certainly_gains_nothing_is_named() -> None:
    classes = {"ill": {"random": CERTAIN, "exchanged": CERTAIN}, "normal": {"random": WORSE, "exchanged": CERTAIN}}
    found = verdict(classes=classes)
    assert found.verdict == "doubtful"
    (reason,) = found.reasons
    assert reason == (
        "The masks of normal mark nothing that shows the class. They are no better than random masks of the same area: "
        "gain -0.30 [-0.50, +0.00]."
    )


def test_masks_of_small_things_in_one_class_are_no_collapse() -> None:
    """Two thirds of the photos have nothing to mark; all-zero masks gain exactly 0 in each class, and fail."""
    certain, nothing = ({"random": gain, "exchanged": gain} for gain in (CERTAIN, Number(0.0, 0.0, 0.0)))
    masks = np.concatenate([objects(10), np.zeros((20, 56, 56), np.float32)])
    found = verdict(masks, classes={"ill": certain})
    assert found.verdict == "doubtful"
    assert found.reasons[:2] == (
        "In 67% of the photos the mask marks nothing or everything.", "The masks certainly gain in the photos of ill.",
    )  # fmt: skip
    for classes in ({}, {"ill": nothing}):
        assert verdict(masks, classes=classes).verdict == "failed"
    everything = verdict(np.ones((30, 56, 56)), classes={"ill": certain})
    assert (everything.verdict, len(everything.reasons)) == ("failed", 1)
