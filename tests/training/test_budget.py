"""What is chosen for photos of which nothing was said, and how long it is foretold to take."""

from dataclasses import astuple

import numpy as np
import pytest

from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.training import budget
from casmap.training import first_classifier as first
from casmap.training.budget import StepTimes, choose, estimate_duration
from casmap.training.recipes import PAPER, PHOTOS, QUICK

CPU = {"device": "cpu"}


@pytest.fixture(autouse=True)
def _offline(monkeypatch) -> None:
    """No test asks the network whether weights can be had."""
    for module in (budget, first):
        monkeypatch.setattr(module, "weights_reachable", lambda backbone: False)


def test_for_a_folder_of_pngs_everything_is_chosen_and_said(tmp_path, make_folder) -> None:
    recipe, reasons = choose(PhotoFolder(make_folder(tmp_path)), CPU)
    assert (recipe.backbone, recipe.pretrained) == ("test_resnet", False)
    assert recipe.size == 64  # the multiple of 32 below 71
    assert recipe.steps == recipe.first_steps == 200  # twelve photos: no more than the least
    assert recipe.period == 6  # about thirty samples
    assert (recipe.area, recipe.lambda_r) == (0.5, None)
    assert recipe.thinning == "L100"
    backbone, size, steps, area = reasons
    assert backbone.startswith("backbone test_resnet with random weights, since no pretrained ones can be fetched")
    assert size.startswith("size 64 px")
    assert "71 px" in size
    assert steps.startswith("steps 200 of Algorithm 1 (at most 30 passes over the photos or 30 minutes")
    assert area == "area 0.5 (without boxes nothing better is known)"


def test_where_pretrained_weights_can_be_had_they_are_chosen(tmp_path, monkeypatch, make_folder) -> None:
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    recipe, reasons = choose(PhotoFolder(make_folder(tmp_path, each=1)), {**CPU, "batch": 2})
    assert (recipe.backbone, recipe.pretrained, recipe.first_lr) == ("lite0", True, 3e-4)
    assert (recipe.masked_in, recipe.freeze_batch_norm, recipe.area) == (PHOTOS.masked_in, True, PHOTOS.area)
    assert reasons[0].startswith("backbone lite0 with pretrained weights")


def test_what_the_user_said_stays(tmp_path, make_folder) -> None:
    said = {**CPU, "backbone": "test_resnet", "size": 40, "steps": 7, "batch": 4, "area": 0.2, "thinning": "FL",
            "period": 3, "first_steps": 9}  # fmt: skip
    recipe, reasons = choose(PhotoFolder(make_folder(tmp_path, each=1)), dict(said))
    assert {name: getattr(recipe, name) for name in said} == said
    assert "size 40" in reasons[1]
    assert "steps 7" in reasons[2]
    assert "area 0.2" in reasons[3]


def test_a_lambda_of_ones_own_takes_the_place_of_the_area(tmp_path, make_folder) -> None:
    recipe, reasons = choose(PhotoFolder(make_folder(tmp_path, each=1)), {**CPU, "lambda_r": 2.0, "batch": 4})
    assert (recipe.lambda_r, recipe.area) == (2.0, None)
    assert reasons[3] == "lambda_r 2.0 as you said"


def test_weights_in_a_file_ask_no_network(tmp_path, monkeypatch, make_folder) -> None:
    def asked(backbone: str) -> bool:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(budget, "weights_reachable", asked)
    said = {**CPU, "weights": "w.safetensors", "backbone": "test_resnet", "batch": 4}
    recipe, reasons = choose(PhotoFolder(make_folder(tmp_path, each=1)), said)
    assert (recipe.weights, recipe.pretrained) == ("w.safetensors", False)
    assert "random" not in reasons[0]


def test_no_pretrained_asks_no_network(tmp_path, monkeypatch, make_folder) -> None:
    def asked(backbone: str) -> bool:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(budget, "weights_reachable", asked)
    said = {**CPU, "pretrained": False, "backbone": "test_resnet", "batch": 4}
    assert choose(PhotoFolder(make_folder(tmp_path, each=1)), said)[0].pretrained is False


class Many:
    """So many photos that time, not their number, decides."""

    classes = ("a", "b")
    labels = np.arange(20_000) % 2

    def __init__(self, side: int = 500) -> None:
        self.side = side

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int, least=None) -> np.ndarray:
        return np.zeros((self.side, self.side + 20, 3), np.uint8)


def test_on_a_cpu_a_run_is_chosen_to_take_half_an_hour(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    recipe, _ = choose(Many(), CPU)
    assert recipe.steps == 2400  # 20 minutes of 0.5 s; f(0) takes the rest
    assert recipe.period == 80
    assert recipe.size == 128  # no larger on a CPU


def test_small_photos_are_not_made_smaller_than_32(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    assert choose(Many(side=20), CPU)[0].size == 32


@pytest.mark.parametrize(
    ("said", "taught"),
    [
        ({}, True),
        ({"encoder": "separate"}, False),
        ({"backbone": "test_vit"}, False),
        ({"second_stage_steps": 0}, False),
    ],
)
def test_where_there_are_weights_a_second_stage_is_chosen_if_it_can_be(monkeypatch, said, taught) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.5, 0.5))
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    recipe, reasons = choose(Many(), {**CPU, "backbone": "test_resnet", **said})
    assert bool(recipe.second_stage_steps) == taught
    assert recipe.size == 224
    assert recipe.algorithm_side == (160 if taught else 224)
    assert any("of the second stage" in reason for reason in reasons) == taught
    # Of thirty minutes: 10,000 looks for the head; the second stage, whose teacher looks at 256 photos twice.
    looks = 10_000 / 16 * 0.2 / 3 * ((224 / 160) ** 2 if taught else 1)
    second = (600 * 0.5 + (600 + 256 / 16) * 0.5) * taught
    assert recipe.steps == int((1800 - looks - second) / 0.5)
    assert recipe.first_steps == 0  # a head is fitted, which takes no steps


def test_a_backbone_whose_head_cannot_be_fitted_is_trained_first(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.5, 0.5))
    recipe, _ = choose(Many(), {**CPU, "backbone": "torchvision/mobilenet_v2", "weights": "w.safetensors"})
    assert recipe.first_steps == recipe.steps == 2400


@pytest.mark.parametrize(("said", "side", "early", "teacher"), [(320, 320, 160, 416), (96, 96, 96, 416)])
def test_the_size_that_is_said_is_the_mappings(monkeypatch, said, side, early, teacher) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.5, 0.5))
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    recipe, _ = choose(Many(), {**CPU, "backbone": "test_resnet", "size": said})
    assert (recipe.size, recipe.algorithm_side, recipe.cam_size) == (side, early, teacher)
    smaller, _ = choose(Many(side=128), {**CPU, "backbone": "test_resnet"})
    assert (smaller.size, smaller.algorithm_side, smaller.cam_size) == (128, 128, 237)


@pytest.mark.parametrize("name", ["steps", "period"])
def test_none_at_all_is_refused_not_taken_for_unsaid(monkeypatch, name) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    with pytest.raises(UserError, match=f"{name} must lie between 1 and"):
        choose(Many(), {**CPU, name: 0})


def test_steps_of_none_are_those_of_the_epochs(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    assert choose(Many(), {**CPU, "steps": None})[0].steps is None


def test_scenes_get_the_quick_recipe() -> None:
    recipe, reasons = choose(Scenes(classes=3, photos=6, size=32), {"seed": 4})
    assert recipe == QUICK.replace(seed=4)
    assert "quick" in reasons[0]


class ImageNet(Many):
    labels = np.zeros(1_281_167, np.int64)


def test_days_are_foretold_with_a_warning(monkeypatch, heard) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(30.0, 10.0, 0.0, 0.0))
    seconds = estimate_duration(ImageNet(), PAPER, trains_first=False, reporter=heard)
    assert seconds == 30 * 70 * 2001
    assert f"about {seconds / 86400:.1f} days (30.00 s a step of Algorithm 1)" in heard.said
    (warning,) = heard.warnings
    assert "That is days on this machine" in warning
    assert "--steps" in warning
    with_first = estimate_duration(ImageNet(), PAPER)
    assert with_first == pytest.approx(seconds + 10 * (90 * 10_009 + 10_000 / 128 / 3))  # and its head


def test_minutes_are_foretold_without_one(monkeypatch, heard) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.2, 0.1, 0.0, 0.0))
    assert estimate_duration(Many(), QUICK, reporter=heard) == pytest.approx(0.2 * 450 + 0.1 * 600)
    assert "about 2.5 minutes" in heard.said
    assert heard.warnings == []


def test_the_second_stage_is_foretold_too(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.2, 0.1, 0.3, 0.5))
    recipe = QUICK.replace(second_stage_steps=300)
    assert estimate_duration(Many(), recipe) == pytest.approx(
        0.2 * 450 + 0.1 * 600 + 300 * 0.3 + (300 + 256 / 32) * 0.5
    )
    few = Many()
    few.labels = few.labels[:320]  # ten batches, taught thirty times; the teacher sees eight of them twice
    assert estimate_duration(few, recipe) == pytest.approx(0.2 * 450 + 0.1 * 600 + 300 * 0.3 + (10 + 8) * 0.5)


def test_a_step_takes_some_time() -> None:
    timed = budget.time_step(QUICK.replace(size=32, batch=4, device="cpu"), 3)
    assert min(timed.algorithm, timed.first) > 0
    assert timed.second_stage_step == timed.pseudo_masks == 0
    taught = QUICK.replace(size=64, algorithm_size=32, batch=4, device="cpu", second_stage_steps=1, cam_size=96)
    assert min(astuple(budget.time_step(taught, 3))) > 0


def test_a_size_that_a_backbone_cannot_take_is_one_sentence() -> None:
    with pytest.raises(UserError, match="vit_tiny_patch16_224 cannot look at pictures of this size") as caught:
        budget.time_step(QUICK.replace(backbone="vit_tiny_patch16_224", size=40, batch=2, device="cpu"), 3)
    assert "\n" not in str(caught.value)
