"""Training that starts from the shipped mapping."""

import numpy as np
import pytest
import torch

from casmap.data.free_photos import free_photos
from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.inference.mapper import SaliencyMapper
from casmap.io.images import open_image
from casmap.models.files import load_mapping
from casmap.training import budget, shipped_start
from casmap.training.budget import StepTimes, estimated_seconds
from casmap.training.loop import train_mapping
from casmap.training.recipes import Recipe
from casmap.training.run import Run
from casmap.training.shipped_start import (
    ADAPT,
    MIN_STEPS,
    STEPS,
    choose_from_shipped,
    starts_from_shipped,
    why_from_scratch,
)

CPU = {"device": "cpu"}


class Photos(PhotoSet):
    """The free photos in two classes, each several times."""

    def __init__(self, count: int = 12) -> None:
        self.images = [np.asarray(open_image(path)) for path in free_photos()]
        self.classes, self.names = ["even", "odd"], [f"{number}.png" for number in range(count)]
        self.labels = np.arange(count) % 2

    def image(self, index: int, least=None):
        return self.images[index % len(self.images)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True), ({"backbone": "lite0"}, True), ({"seed": 3, "second_stage_lr": 1e-3, "batch": 8}, True),
        ({"from_scratch": True}, False), ({"steps": 40}, False), ({"area": 0.3}, False), ({"thinning": "F"}, False),
        ({"backbone": "test_resnet"}, False), ({"weights": "w.safetensors"}, False), ({"pretrained": False}, False),
        ({"second_stage_steps": 0}, False), ({"encoder": "shared"}, False),
    ],
)  # fmt: skip
def test_an_option_of_algorithm_1_starts_algorithm_1(options, expected) -> None:
    assert starts_from_shipped(Photos(), CPU | options) == expected


def test_the_option_that_starts_algorithm_1_is_named() -> None:
    said = why_from_scratch(Photos(), CPU | {"seed": 3, "area": 0.3})
    assert said == "area is an option of Algorithm 1: this run does not start from the shipped mapping."
    for options in ({}, {"seed": 3}, {"area": 0.3, "from_scratch": True}, {"area": 0.3, "backbone": "test_resnet"}):
        assert why_from_scratch(Photos(), CPU | options) is None
    assert why_from_scratch(Scenes(classes=2, photos=4), CPU | {"area": 0.3}) is None


def test_scenes_and_missing_weights_start_from_scratch(monkeypatch) -> None:
    assert not starts_from_shipped(Scenes(classes=2, photos=4), CPU)
    monkeypatch.setattr(shipped_start, "weights_reachable", lambda backbone: False)
    assert not starts_from_shipped(Photos(), CPU)


@pytest.fixture
def timed(monkeypatch):
    def time(seconds: float) -> None:
        times = StepTimes(0.0, seconds, seconds, seconds)
        monkeypatch.setattr(budget, "time_step", lambda recipe, classes: times)

    return time


def test_the_recipe_and_its_lines(timed) -> None:
    timed(0.1)
    recipe, lines, _ = choose_from_shipped(Photos(), CPU)
    assert recipe == ADAPT.replace(size=SaliencyMapper.load().size, device="cpu")
    assert (recipe.masks_from, recipe.from_scratch, recipe.total_steps(12)) == ("shipped", False, 0)
    assert [line.split()[0] for line in lines] == [
        "backbone", "size", "first_steps", "from_scratch", "second_stage_steps"
    ]  # fmt: skip
    *_, last = choose_from_shipped(Photos(), CPU | {"second_stage_steps": 7})[1]
    assert last.startswith("second_stage_steps = 7: ")
    assert last.endswith("(your choice)")


def test_the_steps_fit_into_the_minutes(timed) -> None:
    timed(10.0)
    photos = Photos(40)
    recipe, lines, times = choose_from_shipped(photos, CPU | {"held_out": 0.1}, minutes=15)
    assert MIN_STEPS < recipe.second_stage_steps < STEPS
    seconds = estimated_seconds(recipe, len(photos), times)
    assert seconds <= 900 < seconds + times.second_stage_step
    assert lines[-1].endswith("(as many as fit into 15 minutes)")
    with pytest.raises(UserError, match=r"need about .* minutes on this machine: set minutes to at least"):
        choose_from_shipped(photos, CPU, minutes=1)


def test_algorithm_1_is_not_timed(monkeypatch) -> None:
    def never(*_):
        raise AssertionError("Algorithm 1 was timed")

    monkeypatch.setattr(budget, "casm", never)
    recipe = ADAPT.replace(backbone="test_resnet", pretrained=False, size=64, batch=2, device="cpu")
    times = budget.time_step(recipe, 3)
    assert times.algorithm == 0.0
    assert min(times.first, times.second_stage_step, times.pseudo_masks) > 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One step at a small size, with a rate of nearly 0: the masks stay those of the shipped mapping."""
    folder = tmp_path_factory.mktemp("from-shipped") / "run"
    recipe = ADAPT.replace(size=96, batch=4, second_stage_steps=1, second_stage_lr=1e-12, **CPU)
    return train_mapping(Photos(), Run(folder, recipe)), recipe


def test_it_starts_at_the_shipped_masks(trained) -> None:
    result, _ = trained
    ours = SaliencyMapper.load(result.mapping)
    shipped = SaliencyMapper(SaliencyMapper.load(threads=1).network, ours.size)
    assert ours.classes == ["even", "odd"]
    for path in free_photos()[:3]:
        assert np.abs(ours(path).mask - shipped(path).mask).mean() < 5e-3


def test_the_batch_norms_keep_their_statistics(trained) -> None:
    result, _ = trained
    decoder = load_mapping(result.mapping)[0].decoder
    for lateral in decoder.lateral:
        assert torch.equal(lateral[1].running_mean, torch.zeros(64))
        assert int(lateral[1].num_batches_tracked) == 0


def test_the_decoder_learns(tmp_path, trained) -> None:
    result, recipe = trained
    learned = train_mapping(Photos(), Run(tmp_path / "run", recipe.replace(second_stage_lr=1e-3)))
    before, after = (load_mapping(one.mapping)[0].decoder.mask.weight for one in (result, learned))
    assert not torch.allclose(before, after, atol=1e-5)


def test_another_backbone_is_refused(tmp_path) -> None:
    recipe = ADAPT.replace(backbone="test_resnet", pretrained=False, size=32, batch=4, first_steps=1, **CPU)
    with pytest.raises(UserError, match=r"The shipped mapping is a lite0, not a test_resnet: set from_scratch=True"):
        train_mapping(Photos(), Run(tmp_path / "run", recipe))


def test_a_recipe_without_a_second_stage_cannot_start_from_it() -> None:
    with pytest.raises(UserError, match="from_scratch=False needs a second stage"):
        Recipe(from_scratch=False)
