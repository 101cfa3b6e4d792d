"""From a folder of photos to a run: open the photos, find the recipe, train."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.data.photos import PhotoSet
from casmap.data.readable import Readable
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.training.choice import choose, command_of
from casmap.training.distributed import ONE_PROCESS, Processes, agent, attempt, join_processes
from casmap.training.duration import foretell
from casmap.training.first_classifier import backbone_of, check_weights, first_classifier, is_ready
from casmap.training.loop import Trained, train
from casmap.training.recipes import PHOTOS, Recipe, read_recipe
from casmap.training.run import AGENT, Run, kept_recipe
from casmap.training.second_stage import check_teachable


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
    with join_processes() as processes, processes.mirrored(out) as folder:
        ours = attempt() > 0 and (folder / AGENT).exists() and (folder / AGENT).read_text() == agent()
        resume = processes.from_first(b"yes" if resume or ours else b"") == b"yes"
        yield prepare(
            data, folder, recipe_name, changes, resume, console or Console(quiet=True), boxes, split, processes
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
    processes: Processes = ONE_PROCESS,
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
        console.print(f"To change it: {command_of(data, out, recipe, changes, boxes, split)}", soft_wrap=True)
    if processes.ranks > 1:  # what is chosen depends on how long a step takes
        recipe = Recipe().replace(**json.loads(processes.from_first(recipe.to_json().encode())))
    if isinstance(photos, Readable):
        photos.limit = recipe.unreadable
    return photos, Run(out, recipe, resume, console, processes)


def tell_skipped(photos: PhotoSet, run: Run) -> None:
    """Name the photos that could not be read, whichever process found them."""
    if isinstance(photos, Readable):
        for skipped in run.processes.from_each(json.dumps(list(photos.skipped.items())).encode()):
            photos.skipped |= dict(json.loads(skipped))
        if photos.skipped:
            run.say(photos.told())
