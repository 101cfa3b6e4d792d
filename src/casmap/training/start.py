"""From a folder of photos to a trained mapping: open the photos, choose the recipe, train."""

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
from casmap.reporting import SILENT, Reporter, counted
from casmap.training.budget import StepTimes, choose, estimate_duration
from casmap.training.distributed import join_processes, torchrun_id
from casmap.training.first_classifier import backbone_of, check_weights, first_classifier, is_pretrained_for
from casmap.training.loop import TrainingResult, train_mapping, warn_of_skipped
from casmap.training.recipes import PHOTOS, REMOVED, Recipe, current_names, read_recipe
from casmap.training.run import TORCHRUN, Run, holds_run, saved_recipe
from casmap.training.second_stage import check_has_cam

Source = str | os.PathLike[str]


@dataclass(frozen=True)
class ClassifierResult:
    """The result of training a classifier."""

    classifier: Path
    origin: str  # a sentence that says where it comes from
    warnings: tuple[str, ...]


def train(
    data: Source, *, out: Source = "runs/casm", recipe: Source | None = None, classifier: Source | None = None,
    resume: bool = False, labels: Source | None = None, split: str | None = None, reporter: Reporter = SILENT,
    **options: Any,
) -> TrainingResult:  # fmt: skip
    """Train a mapping on photos with class labels; unset options are chosen for the photos and this machine.

    data: a folder of class folders; an ILSVRC, Pascal VOC or COCO folder; or "scenes[:options]". out: the run's folder.
    recipe: paper, quick, photos, edges, or a TOML or YAML file; a resumed run uses its own. classifier: f(0), a file.
    labels: annotations that give the classes of photos in no class folder; their boxes are not used for training.
    split: the split to use if data has several. options: fields of `Recipe`, such as area=0.4 or steps=1000.
    """
    if classifier is not None and (backbone := backbone_of(str(classifier))) is not None:
        options = {"backbone": backbone, **options}
    with _prepare(data, out, recipe, options, resume, labels, split, reporter) as (photos, run, times):
        if not run.resumed:
            if classifier is None and run.recipe.pretrained and not run.recipe.weights:
                check_weights(run.recipe.backbone)
            if run.recipe.second_stage_steps:
                check_has_cam(run.recipe.backbone)
            trains_first = classifier is None and not is_pretrained_for(photos, run.recipe)
            estimate_duration(photos, run.recipe, trains_first=trains_first, times=times, reporter=reporter)
        return train_mapping(photos, run, None if classifier is None else str(classifier))


def train_classifier(
    data: Source, *, out: Source = "runs/classifier", recipe: Source | None = None, resume: bool = False,
    labels: Source | None = None, split: str | None = None, reporter: Reporter = SILENT, **options: Any,
) -> ClassifierResult:  # fmt: skip
    """Train only a classifier, the way f(0) is trained; the arguments are those of `train`."""
    with _prepare(data, out, recipe, options, resume, labels, split, reporter) as (photos, run, _):
        if run.recipe.pretrained and not run.recipe.weights:
            check_weights(run.recipe.backbone)
        with run.started(photos):
            _, origin = first_classifier(photos, run)
            run.message(f"Initial classifier: {origin}")
        warn_of_skipped(photos, run)
        return ClassifierResult(run.folder / "classifier.safetensors", origin, tuple(run.warnings))


@contextmanager
def _prepare(
    data: Source, out: Source, recipe_name: Source | None, options: dict[str, Any], resume: bool,
    labels: Source | None, split: str | None, reporter: Reporter,
) -> Iterator[tuple[PhotoSet, Run, StepTimes | None]]:  # fmt: skip
    """The photos, the run and, if the recipe was chosen, the times of its steps; joins the processes of torchrun."""
    labels = options.pop("boxes", None) if labels is None else labels  # the name in 0.1.0
    options = current_names(options)
    _check(recipe_name, options)
    with join_processes() as processes, processes.mirrored(Path(out)) as folder:
        saved, torchrun = folder / "recipe.json", folder / TORCHRUN
        restarted = processes.restarted and torchrun.exists() and torchrun.read_bytes() == torchrun_id().encode()
        resume = processes.broadcast(b"yes" if resume or restarted else b"") == b"yes"
        if resume and not saved.exists():
            raise UserError(f"There is no run in {folder} to resume.")
        if saved.exists() and not resume:
            raise holds_run(folder)
        reporter.message(f"Reading photos: {data}")
        photos, warnings = _open(os.fspath(data), labels, split)
        reporter.message(f"Found {len(photos)} photos of {len(photos.classes)} classes.")
        for warning in warnings:
            reporter.warning(warning)
        if isinstance(photos, Readable):
            photos.limit = options.get("unreadable", photos.limit)
        times = None
        if recipe_name is not None:
            recipe = read_recipe(os.fspath(recipe_name)).replace(**options)
        elif resume:
            recipe = saved_recipe(saved).replace(**options)
        else:
            recipe, explanations, times = choose(photos, options, reporter)
            reporter.message("Options chosen for these photos and this machine:")
            for explanation in explanations:
                reporter.message(f"  {explanation}")
            given = {name: value for name, value in (("labels", labels), ("split", split)) if value}
            reporter.message(f"To change them: casmap train {data} {_flags(recipe, given, options)} --out {folder}")
        if processes.ranks > 1:  # the choice depends on timings, which differ between processes
            recipe = Recipe().replace(**json.loads(processes.broadcast(json.dumps(recipe.options()).encode())))
        if isinstance(photos, Readable):
            photos.limit = recipe.unreadable
        run = Run(folder, recipe, resume=resume, processes=processes, reporter=reporter)
        run.warnings += warnings
        yield photos, run, times


def _check(recipe_name: Source | None, options: dict[str, Any]) -> None:
    """Report a wrong option before photos are opened."""
    if recipe_name is not None:
        read_recipe(os.fspath(recipe_name)).replace(**options)
    else:  # whichever recipe is chosen, masks_from comes with its second stage
        steps = {"second_stage_steps": PHOTOS.second_stage_steps} if options.get("masks_from") else {}
        Recipe().replace(**steps | options)


def _open(data: str, labels: Source | None, split: str | None) -> tuple[PhotoSet, list[str]]:
    """The photos, and a warning if some of the folder are skipped."""
    photos = open_photos(data, boxes=labels, split=split)
    if len(photos.classes) < 2:
        only = photos.classes[0]
        raise UserError(f"All photos in {data} are of one class, {only!r}: a classifier needs at least two classes.")
    if isinstance(photos, Scenes):
        return photos, []
    problems = photos.problems if isinstance(photos, PhotoFolder) else []
    skipped = [problem.what for problem in problems if problem.kind in (Kind.UNREADABLE, Kind.NO_CLASS)]
    many, first = counted(len(skipped), "photo"), "".join(skipped[:1])
    warning = f"Skipping {many}, the first: {first}. Reasons: casmap data check {data}"
    return Readable(photos), [warning] * bool(skipped)


def _flags(recipe: Recipe, given: dict[str, Any], options: dict[str, Any]) -> str:
    """The command-line options that repeat the choice, with those that the user gave."""
    names = ("backbone", "size", "steps", "second_stage_steps", "area" if recipe.area is not None else "lambda_r")
    values = given | {name: getattr(recipe, name) for name in names}
    flags = []
    for name, value in (values | {key: value for key, value in options.items() if key not in REMOVED}).items():
        flag = name.replace("_", "-")
        flags.append(f"--{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f"--{flag} {value}")
    return " ".join(flags)
