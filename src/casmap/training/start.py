"""From a folder of photos to a run: open the photos, find the recipe, train."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.data.photos import PhotoSet, Readable
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.reporting import SILENT, Reporter
from casmap.training.budget import choose, estimate_duration
from casmap.training.distributed import agent, attempt, join_processes
from casmap.training.first_classifier import backbone_of, check_weights, first_classifier, is_ready
from casmap.training.loop import TrainingResult, train_mapping, warn_of_skipped
from casmap.training.recipes import GONE, Recipe, current_names, read_recipe
from casmap.training.run import AGENT, Run, kept_recipe
from casmap.training.second_stage import check_has_cam

Source = str | os.PathLike[str]


@dataclass(frozen=True)
class ClassifierResult:
    """What the training of a classifier ended with."""

    classifier: Path
    origin: str  # where it comes from, in a sentence
    warnings: tuple[str, ...]


def train(
    data: Source, *, out: Source = "runs/casm", recipe: Source | None = None, classifier: Source | None = None,
    resume: bool = False, boxes: Source | None = None, split: str | None = None, reporter: Reporter = SILENT,
    **options: Any,
) -> TrainingResult:  # fmt: skip
    """Train a mapping on photos with class labels; what is not said is chosen for the photos and this machine.

    data: a folder of class folders; an ILSVRC, Pascal VOC or COCO folder; or "scenes[:options]". out: the run's folder.
    recipe: paper, quick, photos, or a TOML or YAML file; of a run that is resumed, the one it was begun with.
    classifier: f(0), a file. boxes: annotations that name the photos' classes; the boxes themselves are never looked
    at. split: which one, where data has several. options: fields of a Recipe, such as area=0.4 or steps=1000.
    """
    if classifier is not None and (backbone := backbone_of(str(classifier))) is not None:
        options = {"backbone": backbone, **options}
    with _begun(data, out, recipe, options, resume, boxes, split, reporter) as (photos, run):
        if not run.resumed:
            if classifier is None and run.recipe.pretrained and not run.recipe.weights:
                check_weights(run.recipe.backbone)
            if run.recipe.second_stage_steps:
                check_has_cam(run.recipe.backbone)
            trains_first = classifier is None and not is_ready(photos, run.recipe)
            estimate_duration(photos, run.recipe, trains_first=trains_first, reporter=reporter)
        return train_mapping(photos, run.recipe, run, None if classifier is None else str(classifier))


def train_classifier(
    data: Source, *, out: Source = "runs/classifier", recipe: Source | None = None, resume: bool = False,
    boxes: Source | None = None, split: str | None = None, reporter: Reporter = SILENT, **options: Any,
) -> ClassifierResult:  # fmt: skip
    """Train a classifier only, as f(0) of a run is trained; the arguments are those of `train`."""
    with _begun(data, out, recipe, options, resume, boxes, split, reporter) as (photos, run):
        if run.recipe.pretrained and not run.recipe.weights:
            check_weights(run.recipe.backbone)
        with run.begun(photos):
            _, origin = first_classifier(photos, run.recipe, run)
            run.say(origin)
        warn_of_skipped(photos, run)
        return ClassifierResult(run.folder / "classifier.safetensors", origin, tuple(run.warnings))


@contextmanager
def _begun(
    data: Source, out: Source, named: Source | None, options: dict[str, Any], resume: bool,
    boxes: Source | None, split: str | None, reporter: Reporter,
) -> Iterator[tuple[PhotoSet, Run]]:  # fmt: skip
    """Photos and the run that will learn from them, in this process or in all those that torchrun has started."""
    options = current_names(options)
    Recipe().replace(**options)  # report a typo before photos are opened
    with join_processes() as processes, processes.mirrored(Path(out)) as folder:
        kept = folder / "recipe.json"
        ours = attempt() > 0 and (folder / AGENT).exists() and (folder / AGENT).read_text() == agent()
        resume = processes.broadcast(b"yes" if resume or ours else b"") == b"yes"
        if resume and not kept.exists():
            raise UserError(f"There is no run in {folder} to go on with.")
        if kept.exists() and not resume:
            raise UserError(f"{folder} already holds a run: go on with --resume, or choose another --out.")
        photos, warnings = _open(os.fspath(data), boxes, split)
        for warning in warnings:
            reporter.warning(warning)
        if isinstance(photos, Readable):
            photos.limit = options.get("unreadable", photos.limit)
        if named is not None:
            recipe = read_recipe(os.fspath(named)).replace(**options)
        elif resume:
            recipe = kept_recipe(kept).replace(**options)
        else:
            recipe, reasons = choose(photos, options)
            reporter.message(f"{len(photos)} photos of {len(photos.classes)} classes. Chosen:")
            for reason in reasons:
                reporter.message(f"  {reason}")
            said = {name: value for name, value in (("boxes", boxes), ("split", split)) if value}
            reporter.message(f"To change it: casmap train {data} {_words(recipe, said, options)} --out {folder}")
        if processes.ranks > 1:  # what is chosen depends on how long a step takes
            recipe = Recipe().replace(**json.loads(processes.broadcast(recipe.to_json().encode())))
        if isinstance(photos, Readable):
            photos.limit = recipe.unreadable
        run = Run(folder, recipe, resume=resume, processes=processes, reporter=reporter)
        run.warnings += warnings
        yield photos, run


def _open(data: str, boxes: Source | None, split: str | None) -> tuple[PhotoSet, list[str]]:
    """The photos, and a warning where some of the folder are left out."""
    photos = open_photos(data, boxes=None if boxes is None else Path(boxes), split=split)
    if len(photos.classes) < 2:
        only = photos.classes[0]
        raise UserError(f"All photos in {data} are of one class, {only!r}: a classifier needs at least two.")
    if isinstance(photos, Scenes):
        return photos, []
    problems = photos.problems if isinstance(photos, PhotoFolder) else []
    absent = [one.what for one in problems if one.kind in (Kind.UNREADABLE, Kind.NO_CLASS)]
    told = f"Photos left out: {len(absent)}, the first {''.join(absent[:1])}. Every one: casmap data check {data}"
    return Readable(photos), [told] * bool(absent)


def _words(recipe: Recipe, said: dict[str, Any], options: dict[str, Any]) -> str:
    """The command's options that say what was chosen, and what the user had said."""
    price = "area" if recipe.area is not None else "lambda_r"
    said = said | {name: getattr(recipe, name) for name in ("backbone", "size", "steps", "second_stage_steps", price)}
    words = []
    for name, value in (said | {key: value for key, value in options.items() if key not in GONE}).items():
        option = name.replace("_", "-")
        words.append(f"--{'' if value else 'no-'}{option}" if isinstance(value, bool) else f"--{option} {value}")
    return " ".join(words)
