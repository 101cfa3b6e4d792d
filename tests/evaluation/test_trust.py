"""Trivial masks fail and the shipped mapping does not, on photos that everybody has."""

import cv2
import numpy as np
import pytest

from casmap.data.free_photos import free_photos
from casmap.evaluation.trust import OWN, Measured, evidence_gains, measure
from casmap.evaluation.verdict import FEWEST, judge
from casmap.inference.mapper import SaliencyMapper
from casmap.io.images import open_image

CROPS, SHARE, SIDE = 7, 0.7, 160  # crops of each photo; share of its sides; pixels, which makes it fast


class Crops:
    """Random crops of the free photos, half of them flipped: objects at other places of the image."""

    classes = ["even", "odd"]  # noqa: RUF012

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        photos = [cv2.resize(np.asarray(open_image(path)), (240, 200)) for path in free_photos()]
        height, width = int(SHARE * 200), int(SHARE * 240)
        self.images = []
        for _ in range(CROPS):
            for photo in photos:  # in turn: the next crop shows something else
                top, left = rng.integers(200 - height), rng.integers(240 - width)
                crop = photo[top : top + height, left : left + width]
                self.images.append(crop[:, ::-1] if rng.random() < 0.5 else crop)
        self.names = [f"{number}.png" for number in range(len(self.images))]
        self.labels = (np.arange(len(self.images)) + np.arange(len(self.images)) // len(photos)) % 2

    def __len__(self) -> int:
        return len(self.images)

    def image(self, index: int, least=None):
        return self.images[index]

    def annotation(self, index: int):
        return None


class Replaced:
    """The shipped mapping's network with other masks: it predicts as before."""

    def __init__(self, network, masks) -> None:
        self.network, self.replace = network, masks
        self.classes, self.predicts, self.concurrent = network.classes, True, False
        self.mean, self.std = network.mean, network.std

    def run(self, images):
        masks, logits = self.network.run(images)
        return self.replace(masks), logits


def boxes(masks):
    found = np.zeros_like(masks)
    height, width = masks.shape[1:]
    found[:, height // 4 : -height // 4, width // 4 : -width // 4] = 1
    return found


class Noise:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def __call__(self, masks):
        fields = [cv2.GaussianBlur(self.rng.standard_normal(mask.shape), (0, 0), 15) for mask in masks]
        return np.stack([(field > 0).astype(np.float32) for field in fields])


TRIVIAL = {
    "ones": np.ones_like, "zeros": np.zeros_like, "centre": boxes, "random": Noise(),
    "shuffled": lambda masks: np.roll(masks, 1, axis=0),
}  # fmt: skip


@pytest.fixture(scope="module")
def shipped():
    return SaliencyMapper(SaliencyMapper.load(threads=1).network, SIDE)


@pytest.fixture(scope="module")
def crops():
    return Crops()


@pytest.fixture(scope="module")
def measured(shipped, crops):
    return measure(shipped, crops)


def test_the_shipped_mapping_beats_all_control_masks(measured) -> None:
    assert len(measured.masks) == 6 * CROPS >= FEWEST
    assert {name for name, gain in measured.gains.items() if gain.low > 0} == {"centred", "random", "another photo's"}
    assert measured.judge().verdict == "good"


@pytest.mark.parametrize("name", TRIVIAL)
def test_trivial_masks_fail(shipped, crops, name) -> None:
    mapper = SaliencyMapper(Replaced(shipped.network, TRIVIAL[name]), shipped.size, edges="smooth")
    measured = measure(mapper, crops)
    assert len(measured.class_gains) == 2  # a gain in one class by chance would make the verdict doubtful
    found = measured.judge()
    assert found.verdict == "failed", (name, found)
    assert all(reason.endswith(".") for reason in found.reasons)


def test_a_mask_gains_nothing_over_itself() -> None:
    random = np.random.default_rng(0).random((2, 30))
    of = {"masked-in": random[0], "inpainted": random[1]}
    (gain,) = evidence_gains({OWN: of, "centred": of}).values()
    assert (gain.value, gain.low, gain.high) == (0.0, 0.0, 0.0)


def test_another_classifier_can_judge(shipped, crops) -> None:
    """One that sees nothing finds no evidence."""
    blind = measure(shipped, crops, classify=lambda images: np.zeros((len(images), 1000), np.float32), most=24)
    assert len(blind.masks) == 24
    assert all(gain.value == 0 for gain in blind.gains.values())
    assert blind.judge().verdict == "failed"


def test_few_photos_are_a_doubt(measured) -> None:
    """A gain that may be chance is a failure only if there are enough photos to tell."""
    of = {"masked-in": np.array([0.9, 0.1] * 5), "inpainted": np.array([0.1, 0.9] * 5)}
    half = {"masked-in": np.full(10, 0.5), "inpainted": np.full(10, 0.5)}
    gains = evidence_gains({OWN: of, "random": half})
    labels, correct = np.zeros(10, np.int64), {name: values[:10] for name, values in measured.correct[OWN].items()}
    found = [judge(measured.masks[:10], labels, ["photo"], correct, gains, count) for count in (10, FEWEST)]
    assert [one.verdict for one in found] == ["doubtful", "failed"]
    assert "may be no better than random masks" in found[0].reasons[0]


def made(labels, own: np.ndarray) -> Measured:
    """Photos in whose masks the class is by these factors more probable than in control masks, on a log scale."""
    of = {"masked-in": np.full(len(labels), 0.1), "inpainted": np.full(len(labels), 0.1)}
    better = {"masked-in": 0.1 * np.exp(own), "inpainted": of["inpainted"]}
    masks = np.zeros((len(labels), 8, 8), np.float32)
    for n, mask in enumerate(masks):
        mask[: 2 + n % 5, n % 3 :] = 1
    known = {version: np.ones(len(labels)) for version in ("whole", "masked-in")} | {"inpainted": np.zeros(len(labels))}
    classes = [str(label) for label in range(labels.max() + 1)]
    return Measured(labels, classes, masks, {OWN: better, "random": of, "another photo's": of}, {OWN: known}, True)


def test_a_class_with_nothing_to_see_does_not_make_all_masks_fail() -> None:
    """In 30 photos of class 0 the masks hold evidence; in 30 of class 1 they hold noise, which hides it in the mean."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 30)
    noise = rng.normal(0, 1.5, 30)
    own = np.concatenate([rng.normal(0.5, 0.3, 30), noise - noise.mean() - 0.2])
    found = made(labels, own).judge()
    assert found.verdict == "doubtful"
    assert "The masks certainly gain in the photos of 0." in found.reasons
    assert made(labels, -own).judge().verdict == "failed"
    few = made(np.repeat([0, 1, 2], [FEWEST - 1, 1, 40]), own)
    assert few.class_gains.keys() == {"2"}  # too few photos of the others


def test_classes_rarely_gain_by_chance() -> None:
    """Noise with heavy tails, three classes: with 95 % intervals one in twelve sets would have a class that gains."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], [40, 25, 20])
    sets = [made(labels, rng.standard_t(3, len(labels))).class_gains for _ in range(200)]
    by_chance = [any(of["random"].low > 0 for of in gains.values()) for gains in sets]
    assert np.mean(by_chance) < 0.06
