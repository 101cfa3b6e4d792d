"""The options that are chosen for photos and a machine, their explanations, and the estimated time."""

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
    """No test contacts the network to look for weights."""
    for module in (budget, first):
        monkeypatch.setattr(module, "weights_reachable", lambda backbone: False)


def test_for_a_folder_of_pngs_every_option_is_chosen_and_explained(tmp_path, make_folder) -> None:
    recipe, lines, _ = choose(PhotoFolder(make_folder(tmp_path)), CPU)
    assert (recipe.backbone, recipe.pretrained) == ("test_resnet", False)
    assert recipe.size == 64  # the multiple of 32 below 71
    assert recipe.steps == recipe.first_steps == 200  # twelve photos: the minimum
    assert recipe.period == 6  # about thirty samples
    assert (recipe.area, recipe.lambda_r) == (0.5, None)
    assert recipe.thinning == "L100"
    backbone, size, first_steps, steps, thinning, area = lines
    assert backbone.startswith(
        "backbone = test_resnet: the network of the classifier (cpu, random weights; no pretrained"
    )
    assert size == "size = 64: photos are resized to 64 x 64 pixels (the shorter side of a typical photo is 71 pixels)"
    assert first_steps.startswith("first_steps = 200: training steps of f(0), the initial classifier")
    assert steps.startswith("steps = 200: steps of Algorithm 1, ")
    assert steps.endswith("(the minimum)")  # no time limit that the run might not keep
    assert "earlier classifiers that also score the masks; every 6th is kept (period=6)" in thinning
    assert area.startswith("area = 0.5: share of a photo")


def test_pretrained_weights_are_chosen_if_they_are_available(tmp_path, monkeypatch, make_folder) -> None:
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    recipe, lines, _ = choose(
        PhotoFolder(make_folder(tmp_path, each=1)), {**CPU, "batch": 2, "second_stage_steps": 600}
    )
    assert (recipe.backbone, recipe.pretrained, recipe.first_lr) == ("lite0", True, 3e-4)
    assert (recipe.masked_in, recipe.freeze_batch_norm, recipe.area) == (PHOTOS.masked_in, True, PHOTOS.area)
    assert lines[0] == "backbone = lite0: the network of the classifier (cpu, pretrained weights)"
    assert lines[2].startswith("first_steps = 240: training steps of f(0), the initial classifier")
    assert lines[3].startswith("first_if_better = True: train only the last layers of f(0), if its head alone is not")
    assert recipe.algorithm_side == recipe.size  # photos of 12 pixels: no smaller size to explain
    assert not any(line.startswith("algorithm_size") for line in lines)
    assert lines[-1].startswith("second_stage_steps = 600: steps of the second stage, which learns")


def test_options_that_the_user_sets_stay(tmp_path, make_folder) -> None:
    given = {**CPU, "backbone": "test_resnet", "size": 40, "steps": 7, "batch": 4, "area": 0.2, "thinning": "FL",
             "period": 3, "first_steps": 9}  # fmt: skip
    recipe, lines, _ = choose(PhotoFolder(make_folder(tmp_path, each=1)), dict(given))
    assert {name: getattr(recipe, name) for name in given} == given
    for name in ("backbone", "size", "first_steps", "steps", "thinning", "area"):
        assert any(line.startswith(f"{name} = {given[name]}: ") and line.endswith("(your choice)") for line in lines)


def test_a_given_lambda_r_replaces_the_area(tmp_path, make_folder) -> None:
    recipe, lines, _ = choose(PhotoFolder(make_folder(tmp_path, each=1)), {**CPU, "lambda_r": 2.0, "batch": 4})
    assert (recipe.lambda_r, recipe.area) == (2.0, None)
    assert lines[-1] == "lambda_r = 2.0: weight of a mask's area; a higher weight makes smaller masks (your choice)"


def test_with_a_weights_file_the_network_is_not_contacted(tmp_path, monkeypatch, make_folder) -> None:
    def contacted(backbone: str) -> bool:
        raise AssertionError("the network was contacted")

    monkeypatch.setattr(budget, "weights_reachable", contacted)
    given = {**CPU, "weights": "w.safetensors", "backbone": "test_resnet", "batch": 4}
    recipe, lines, _ = choose(PhotoFolder(make_folder(tmp_path, each=1)), given)
    assert (recipe.weights, recipe.pretrained) == ("w.safetensors", False)
    assert "random" not in lines[0]


def test_without_pretrained_weights_the_network_is_not_contacted(tmp_path, monkeypatch, make_folder) -> None:
    def contacted(backbone: str) -> bool:
        raise AssertionError("the network was contacted")

    monkeypatch.setattr(budget, "weights_reachable", contacted)
    given = {**CPU, "pretrained": False, "backbone": "test_resnet", "batch": 4}
    assert choose(PhotoFolder(make_folder(tmp_path, each=1)), given)[0].pretrained is False


class Many:
    """So many photos that the time limit decides."""

    classes = ("a", "b")
    labels = np.arange(20_000) % 2

    def __init__(self, side: int = 500) -> None:
        self.side = side

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int, least=None) -> np.ndarray:
        return np.zeros((self.side, self.side + 20, 3), np.uint8)


def test_on_a_cpu_the_chosen_run_takes_half_an_hour(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    recipe, lines, _ = choose(Many(), CPU)
    assert recipe.steps == int(1800 / (0.5 + 0.2))  # Algorithm 1 and f(0) take as many steps each
    assert recipe.period == 85
    assert recipe.size == 128  # no larger on a CPU
    assert any(
        line.startswith("steps = 2571: ") and line.endswith("(as many as fit into 30 minutes)") for line in lines
    )


@pytest.mark.parametrize(("step", "expected"), [(0.5, 240), (1.0, 240), (4.0, 112), (12.0, 0)])
def test_training_f0_takes_at_most_a_seventh_of_the_time(monkeypatch, step, expected) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(step, step, step, step))
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    few = Many()
    few.labels = few.labels[:500]
    recipe, _, _ = choose(few, {**CPU, "backbone": "test_resnet"})
    assert recipe.first_steps == expected
    assert choose(few, {**CPU, "backbone": "test_resnet", "first_steps": 7})[0].first_if_better is False


class Slow(Many):
    """Photos that take longer to read than the networks take for a step."""

    def image(self, index: int, least=None) -> np.ndarray:
        self.clock[0] += 0.1
        return super().image(index, least)


@pytest.mark.parametrize("step", [0.2, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("first", [0.1, 1.0])
@pytest.mark.parametrize("options", [{}, {"first_steps": 500}, {"second_stage_steps": 0}])
@pytest.mark.parametrize("weights", [True, False])
def test_a_time_limit_that_is_stated_is_kept_by_the_estimate(
    monkeypatch, recorder, step, first, options, weights
) -> None:
    times = StepTimes(step, first * step, step, step)
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: times)
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: weights)
    clock, photos = [0.0], Slow()
    photos.clock = clock
    monkeypatch.setattr(budget.time, "monotonic", lambda: clock[0])
    recipe, lines, measured = choose(photos, {**CPU, "backbone": "test_resnet", **options}, recorder)
    seconds = estimate_duration(photos, recipe, times=measured, reporter=recorder)
    (steps,) = [line for line in lines if line.startswith("steps = ")]
    if "30 minutes" in steps:
        assert 0.95 * 1800 < seconds <= 1800
    else:
        assert "minutes" not in steps
        assert seconds <= 1800 or recipe.steps == budget.MIN_STEPS
    assert [message.partition(" ")[0] for message in recorder.messages] == ["Timing", "Estimated"]  # once each


def test_small_photos_are_not_made_smaller_than_32(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    assert choose(Many(side=20), CPU)[0].size == 32


@pytest.mark.parametrize(
    ("given", "second_stage"),
    [
        ({}, True),
        ({"encoder": "separate"}, False),
        ({"backbone": "test_vit"}, False),
        ({"second_stage_steps": 0}, False),
    ],
)
def test_with_weights_a_second_stage_is_chosen_if_possible(monkeypatch, given, second_stage) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.5, 0.5))
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    recipe, lines, _ = choose(Many(), {**CPU, "backbone": "test_resnet", **given})
    assert bool(recipe.second_stage_steps) == second_stage
    assert recipe.size == 224
    assert recipe.algorithm_side == (160 if second_stage else 224)
    assert any("of the second stage" in line for line in lines) == second_stage
    # Of 30 minutes: 10,000 forward passes for the head; the second stage, with 256 photos twice for the cut.
    head = 10_000 / 16 * 0.2 / 3 * ((224 / 160) ** 2 if second_stage else 1)
    second = (600 * 0.5 + (600 + 256 / 16) * 0.5) * second_stage
    assert recipe.first_if_better
    assert recipe.steps == int((1800 - head - second - 240 * 0.4 * 0.2) / 0.5)
    assert recipe.first_steps == 240  # if the head is not good


def test_a_backbone_whose_head_cannot_be_fitted_is_trained_first(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.5, 0.5))
    recipe, *_ = choose(Many(), {**CPU, "backbone": "torchvision/mobilenet_v2", "weights": "w.safetensors"})
    assert recipe.first_steps == recipe.steps == int(1800 / (0.5 + 0.2))


@pytest.mark.parametrize(("given", "side", "algorithm", "cam"), [(320, 320, 160, 416), (96, 96, 96, 416)])
def test_a_given_size_is_that_of_the_mapping(monkeypatch, given, side, algorithm, cam) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.5, 0.5))
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    recipe, *_ = choose(Many(), {**CPU, "backbone": "test_resnet", "size": given})
    assert (recipe.size, recipe.algorithm_side, recipe.cam_size) == (side, algorithm, cam)
    smaller, *_ = choose(Many(side=128), {**CPU, "backbone": "test_resnet"})
    assert (smaller.size, smaller.algorithm_side, smaller.cam_size) == (128, 128, 237)


@pytest.mark.parametrize("name", ["steps", "period"])
def test_zero_is_refused_and_not_treated_as_unset(monkeypatch, name) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    with pytest.raises(UserError, match=f"{name} must be between 1 and"):
        choose(Many(), {**CPU, name: 0})


def test_with_steps_of_none_the_epochs_decide(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.5, 0.2, 0.0, 0.0))
    assert choose(Many(), {**CPU, "steps": None})[0].steps is None


def test_scenes_get_the_quick_recipe() -> None:
    recipe, lines, _ = choose(Scenes(classes=3, photos=6, size=32), {"seed": 4})
    assert recipe == QUICK.replace(seed=4)
    assert "quick" in lines[0]


class ImageNet(Many):
    labels = np.zeros(1_281_167, np.int64)


def test_an_estimate_of_days_comes_with_a_warning(monkeypatch, recorder) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(30.0, 10.0, 0.0, 0.0))
    seconds = estimate_duration(ImageNet(), PAPER, trains_first=False, reporter=recorder)
    assert seconds == 30 * 70 * 2001
    assert f"about {seconds / 86400:.1f} days (30.00 s per step of Algorithm 1)" in recorder.text
    (warning,) = recorder.warnings
    assert "will take days on this machine" in warning
    assert "steps" in warning
    with_first = estimate_duration(ImageNet(), PAPER)
    assert with_first == pytest.approx(seconds + 10 * (90 * 10_009 + 10_000 / 128 / 3))  # and its head


def test_an_estimate_of_minutes_comes_without_a_warning(monkeypatch, recorder) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.2, 0.1, 0.0, 0.0))
    assert estimate_duration(Many(), QUICK, reporter=recorder) == pytest.approx(0.2 * 450 + 0.1 * 600)
    assert "about 2.5 minutes" in recorder.text
    assert recorder.warnings == []


def test_the_estimate_includes_the_second_stage(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.2, 0.1, 0.3, 0.5))
    recipe = QUICK.replace(second_stage_steps=300)
    assert estimate_duration(Many(), recipe) == pytest.approx(
        0.2 * 450 + 0.1 * 600 + 300 * 0.3 + (300 + 256 / 32) * 0.5
    )
    few = Many()
    few.labels = few.labels[:320]  # ten batches, used thirty times; eight of them also for the cut
    assert estimate_duration(few, recipe) == pytest.approx(0.2 * 450 + 0.1 * 600 + 300 * 0.3 + (10 + 8) * 0.5)


def test_only_pseudo_masks_from_class_activation_maps_need_a_cut() -> None:
    times = StepTimes(0.0, 0.0, 0.0, pseudo_masks=1.0)
    recipe = PHOTOS.replace(second_stage_steps=60, batch=16)
    seconds = [times.second_stage(recipe.replace(pseudo_masks=kind), 2000) for kind in ("cam", "edges", "seeds")]
    assert seconds == [60 + 256 / 16, 60, 60]


def test_a_step_takes_some_time() -> None:
    timed = budget.time_step(QUICK.replace(size=32, batch=4, device="cpu"), 3)
    assert min(timed.algorithm, timed.first) > 0
    assert timed.second_stage_step == timed.pseudo_masks == 0
    recipe = QUICK.replace(size=64, algorithm_size=32, batch=4, device="cpu", second_stage_steps=1, cam_size=96)
    assert min(astuple(budget.time_step(recipe, 3))) > 0


def test_a_size_that_a_backbone_cannot_take_is_one_sentence() -> None:
    with pytest.raises(UserError, match="vit_tiny_patch16_224 does not support images of this size") as caught:
        budget.time_step(QUICK.replace(backbone="vit_tiny_patch16_224", size=40, batch=2, device="cpu"), 3)
    assert "\n" not in str(caught.value)


def test_fewer_than_1000_photos_take_20_minutes(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(5.0, 2.0, 0.0, 0.0))
    few = Many()
    few.labels = few.labels[:999]
    recipe, lines, _ = choose(few, CPU)
    assert recipe.steps == 200  # the minimum
    assert not any("minutes" in line for line in lines)
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(2.0, 0.2, 0.0, 0.0))
    recipe, lines, _ = choose(few, CPU)
    assert recipe.steps == int(1200 / 2.2)
    assert any(line.endswith("(as many as fit into 20 minutes)") for line in lines)


@pytest.mark.parametrize("minutes", [20, 60, 300])
def test_a_recipe_fits_into_the_minutes(monkeypatch, minutes) -> None:
    """Sizes and stages shrink until it does; the time of a step grows with the area of the images."""

    def timed(recipe, classes):
        area, whole = (recipe.algorithm_side / 160) ** 2, (recipe.size / 224) ** 2
        return StepTimes(4 * area, 1 * area, 3 * whole, 1 * whole)

    monkeypatch.setattr(budget, "time_step", timed)
    monkeypatch.setattr(budget, "weights_reachable", lambda backbone: True)
    photos = Many()
    photos.labels = photos.labels[:2000]
    recipe, _, times = choose(photos, {**CPU, "backbone": "test_resnet", "held_out": 0.1}, minutes=minutes)
    seconds = estimate_duration(photos, recipe, times=times)
    assert recipe.steps >= budget.MIN_STEPS
    assert recipe.second_stage_steps >= budget.MIN_SECOND_STAGE
    assert 0.8 * 60 * minutes < seconds <= 1.01 * 60 * minutes or recipe.steps == 30 * (2000 // 16)
    assert (recipe.size < 224) == (minutes == 20)


def test_minutes_that_are_too_few_are_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(4.0, 1.0, 3.0, 1.0))
    with pytest.raises(UserError, match=r"These photos need about .* on this machine: set minutes to at least 17"):
        choose(Many(), CPU, minutes=1)


def test_the_estimate_includes_the_verdict(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.2, 0.1, 0.0, 0.0))
    recipe, photos = QUICK, Many()
    without = estimate_duration(photos, recipe)
    # 200 of more than 2,000 held-out photos, each in nine forward passes and four inpainted versions, and 50 of them
    # again with the shipped mapping's masks.
    assert estimate_duration(photos, recipe.replace(held_out=0.1)) == pytest.approx(
        without + 250 * (9 * 0.1 / 3 / 32 + 4 * 0.05)
    )


def test_with_the_masks_of_another_mapping_no_step_of_algorithm_1_limits_the_choice(monkeypatch) -> None:
    monkeypatch.setattr(budget, "time_step", lambda recipe, classes: StepTimes(0.0, 0.1, 0.2, 0.1))
    photos = Scenes(classes=4, photos=400, size=64)
    options = {"device": "cpu", "backbone": "lite0", "masks_from": "shipped", "second_stage_steps": 50}
    recipe, _, _ = choose(photos, {**options, "first_steps": 0})
    assert recipe.total_steps(len(photos)) == 0
    assert recipe.second_stage_steps == 50
