"""Images unlike photos: whether the shipped mapping fits, and the recipe that is chosen if it does not."""

import numpy as np
import pytest

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.evaluation.control_masks import EXCHANGED
from casmap.evaluation.numbers import Number
from casmap.training import budget, start
from casmap.training.budget import StepTimes, estimated_seconds
from casmap.training.held_out import SETTLED
from casmap.training.recipes import SCANS
from casmap.training.shipped_fit import FEWEST, Fit, measure_fit
from casmap.training.unlike import choose_unlike

CPU = {"device": "cpu"}
CERTAIN, UNCERTAIN = Number(1.0, 0.5, 1.5), Number(0.5, -0.1, 1.1)


class Noise(PhotoSet):
    """Grey noise; in one class a small dark blob."""

    def __init__(self, count: int = 90, side: int = 96) -> None:
        self.side, self.classes = side, ["blob", "none"]
        self.names, self.labels = [f"{number}.png" for number in range(count)], np.arange(count) % 2

    def image(self, index: int, least=None) -> np.ndarray:
        rng = np.random.default_rng(index)
        image = rng.normal(110, 30, (self.side, self.side))
        if self.labels[index] == 0:
            row, column = rng.integers(self.side - 10, size=2)
            image[row : row + 10, column : column + 10] -= 90
        return np.repeat(image.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def test_a_mapping_fits_if_it_certainly_gains_over_random_and_exchanged_masks() -> None:
    assert Fit({"random": CERTAIN, EXCHANGED: CERTAIN, "centred": UNCERTAIN}, 60).fits
    assert not Fit({"random": CERTAIN, EXCHANGED: UNCERTAIN}, 60).fits
    assert not Fit({"random": UNCERTAIN, EXCHANGED: CERTAIN}, 60).fits


def test_the_shipped_mapping_does_not_fit_blobs_in_noise() -> None:
    fit = measure_fit(Noise(), device="cpu")
    assert fit.photos == 18  # a fifth
    assert not fit.fits
    assert str(fit).endswith("on 18 photos")


def test_too_few_photos_tell_nothing() -> None:
    assert measure_fit(Noise(4 * FEWEST), device="cpu") is None


@pytest.fixture
def timed(monkeypatch):
    def time(seconds: float) -> None:
        monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(*[seconds] * 4))

    return time


def test_with_time_the_recipe_is_scans_and_says_why(timed) -> None:
    timed(0.1)
    recipe, lines, _ = choose_unlike(Noise(side=256), CPU)
    assert recipe == SCANS.replace(**CPU)
    assert lines[0] == "from_scratch = True: run Algorithm 1, because the shipped mapping does not fit these photos"
    assert any(line.startswith("first_steps = 240: training steps of the last layers of f(0), if ") for line in lines)
    chosen, lines, _ = choose_unlike(Noise(side=256), CPU | {"first_steps": 7})
    assert chosen.first_steps == 7
    assert any(line.startswith("first_steps = 7: ") and line.endswith("(your choice)") for line in lines)


def test_small_images_are_not_enlarged(timed) -> None:
    timed(0.1)
    assert choose_unlike(Noise(side=170), CPU)[0].size == 160
    assert choose_unlike(Noise(side=40), CPU)[0].size == 96


def test_the_run_fits_into_the_minutes(timed) -> None:
    timed(1.0)
    photos = Noise(side=256)
    for minutes in (10, 6, 5):
        recipe, _, times = choose_unlike(photos, CPU | {"held_out": 0.1}, minutes)
        assert estimated_seconds(recipe, len(photos), times) <= 60 * minutes
        assert recipe.steps >= SETTLED
    assert recipe.first_steps < SCANS.first_steps
    with pytest.raises(UserError, match=r"need about .* on this machine: set minutes to at least 4"):
        choose_unlike(photos, CPU, 1)


@pytest.mark.parametrize(("fits", "masks_from", "words"), [(True, "shipped", "fits"), (False, None, "does not fit")])
def test_the_fit_decides_where_training_starts(monkeypatch, recorder, timed, fits, masks_from, words) -> None:
    timed(0.1)
    gain = CERTAIN if fits else UNCERTAIN
    monkeypatch.setattr(start, "measure_fit", lambda *_: Fit({"random": gain, EXCHANGED: gain}, 56))
    recipe, _, _ = start._shipped_or_unlike(Noise(side=256), CPU, None, recorder)
    assert recipe.masks_from == masks_from
    assert start._flags(recipe, {}, {}).startswith("--backbone lite0" if fits else "--recipe scans --size 224")
    assert any(f"The shipped mapping {words} these photos: gain over random" in line for line in recorder.messages)
