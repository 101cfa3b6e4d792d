"""From a folder of photos to a trained mapping: open the photos, choose the recipe, train."""

import json
import os
import time
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
from casmap.errors import UserError, option
from casmap.inference.mapper import SaliencyMapper
from casmap.models.backbones import source_of
from casmap.reporting import SILENT, Reporter, counted
from casmap.training.budget import StepTimes, choose, estimate_duration
from casmap.training.distributed import join_processes, torchrun_id
from casmap.training.first_classifier import backbone_of, check_weights, first_classifier, is_pretrained_for
from casmap.training.held_out import SETTLED, SHARE, hold_out
from casmap.training.loop import TrainingResult, train_mapping, warn_of_skipped
from casmap.training.options_of_0_1_0 import REMOVED, current_names
from casmap.training.recipes import PHOTOS, Recipe, read_recipe
from casmap.training.run import TORCHRUN, Run, holds_run, saved_recipe
from casmap.training.second_stage import check_has_cam, check_start
from casmap.training.shipped_fit import measure_fit
from casmap.training.shipped_start import choose_from_shipped, starts_from_shipped, why_from_scratch
from casmap.training.unlike import choose_unlike

Source = str | os.PathLike[str]


@dataclass(frozen=True)
class ClassifierResult:
    """The result of training a classifier."""

    classifier: Path
    origin: str  # a sentence that says where it comes from
    warnings: tuple[str, ...]


def train(
    data: Source, *, out: Source = "runs/casm", recipe: Source | None = None, classifier: Source | None = None,
    resume: bool = False, labels: Source | None = None, split: str | None = None, minutes: float | None = None,
    reporter: Reporter = SILENT, **options: Any,
) -> TrainingResult:  # fmt: skip
    """Train a mapping on photos with class labels; unset options are chosen for the photos and this machine.

    data: a folder of class folders; an ILSVRC, Pascal VOC or COCO folder; or "scenes[:options]". out: the run's folder.
    recipe: paper, quick, photos, seeds, scans, or a TOML or YAML file; a resumed run uses its own. classifier: a file.
    labels: annotations that give the classes of photos in no class folder; their boxes are not used for training.
    split: the split to use if data has several. minutes: choose a recipe that fits into them. options: fields of
    `Recipe`, such as area=0.4 or steps=1000.
    """
    if classifier is not None and (backbone := backbone_of(str(classifier))) is not None:
        options = {"backbone": backbone, **options}
    with _prepare(data, out, recipe, options, resume, labels, split, SHARE, minutes, reporter) as (
        photos,
        held_out,
        run,
        times,
    ):
        if not run.resumed:
            if 0 < (steps := run.recipe.total_steps(len(photos))) < SETTLED:
                reporter.message(
                    f"{option('steps', steps)} is short: masks settle after about {SETTLED} steps, and the verdict "
                    "will be doubtful at best."
                )
            if recipe is None and classifier is None and (lacking := _lacks_weights(photos, run.recipe, options)):
                reporter.warning(lacking)
                run.warnings.append(lacking)
            if classifier is None and run.recipe.pretrained and not run.recipe.weights:
                check_weights(run.recipe.backbone)
            if run.recipe.second_stage_steps:
                check_has_cam(run.recipe.backbone)
                check_start(run.recipe)
            trains_first = classifier is None and not is_pretrained_for(photos, run.recipe)
            run.estimate = estimate_duration(
                photos, run.recipe, trains_first=trains_first, times=times, reporter=reporter
            )
        return train_mapping(photos, run, None if classifier is None else str(classifier), held_out=held_out)


def train_classifier(
    data: Source, *, out: Source = "runs/classifier", recipe: Source | None = None, resume: bool = False,
    labels: Source | None = None, split: str | None = None, reporter: Reporter = SILENT, **options: Any,
) -> ClassifierResult:  # fmt: skip
    """Train only a classifier, the way f(0) is trained; the arguments are those of `train`."""
    options = {"from_scratch": True} | options  # the batch norms of the shipped encoder have no statistics
    with _prepare(data, out, recipe, options, resume, labels, split, 0.0, None, reporter) as (photos, _, run, _):
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
    labels: Source | None, split: str | None, share: float, minutes: float | None,
    reporter: Reporter,
) -> Iterator[tuple[PhotoSet, PhotoSet | None, Run, StepTimes | None]]:  # fmt: skip
    """The photos, those held out, the run and, if the recipe was chosen, the times of its steps.

    Joins the processes of torchrun. share: of held-out photos, unless the user or the recipe names one.
    """
    labels = options.pop("boxes", None) if labels is None else labels  # the name in 0.1.0
    options = current_names(options)
    if minutes is not None and recipe_name is not None:
        raise UserError(f"{option('minutes')} chooses a recipe: leave out {option('recipe')}.")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise UserError(f"{option('minutes')} must be above 0, not {minutes:g}.")
    _check(recipe_name, options)
    with join_processes() as processes, processes.mirrored(Path(out)) as folder:
        saved, torchrun = folder / "recipe.json", folder / TORCHRUN
        restarted = processes.restarted and torchrun.exists() and torchrun.read_bytes() == torchrun_id().encode()
        resume = processes.broadcast(b"yes" if resume or restarted else b"") == b"yes"
        if resume and not saved.exists():
            raise UserError(f"There is no run in {folder} to resume.")
        if saved.exists() and not resume:
            if "://" not in (given_data := os.fspath(data)) and not Path(given_data).exists():
                open_photos(given_data)  # what is wrong with it comes first
            raise holds_run(folder)
        reporter.message(f"Reading photos: {data}")
        found, warnings = _open(os.fspath(data), labels, split)
        reporter.message(f"Found {len(found)} photos of {len(found.classes)} classes.")
        for warning in warnings:
            reporter.warning(warning)
        given = None
        if recipe_name is not None:
            given = read_recipe(os.fspath(recipe_name)).replace(**options)
        elif resume:
            given = saved_recipe(saved).replace(**options)
        if given is not None and resume and given.held_out is None:
            given = given.replace(held_out=saved_recipe(saved).held_out)
        share = _share(given, options, 0.0 if resume else share)
        photos, held_out = _hold_out(found, os.fspath(data), share, given.seed if given else options.get("seed", 0))
        if share and not resume:
            reporter.message(_about_held_out(photos, held_out))
        if isinstance(photos, Readable):
            photos.limit = options.get("unreadable", photos.limit)
        times = None
        if given is None:
            wanted = options | ({"held_out": share} if share else {})
            if processes.ranks == 1 and starts_from_shipped(photos, options):
                recipe, explanations, times = _shipped_or_unlike(photos, wanted, minutes, reporter)
            else:
                if (why := why_from_scratch(photos, options)) is not None:
                    reporter.message(why)
                recipe, explanations, times = choose(photos, wanted, reporter, minutes)
            reporter.message("Options chosen for these photos and this machine:")
            for explanation in explanations:
                reporter.message(f"  {explanation}")
            named = {name: value for name, value in (("labels", labels), ("split", split)) if value}
            reporter.message(f"To change them: casmap train {data} {_flags(recipe, named, options)} --out {folder}")
        else:
            recipe = given
        if share and not resume:
            recipe = recipe.replace(held_out=share)
        if processes.ranks > 1:  # the choice depends on timings, which differ between processes
            recipe = Recipe().replace(**json.loads(processes.broadcast(json.dumps(recipe.options()).encode())))
        if isinstance(photos, Readable):
            photos.limit = recipe.unreadable
        run = Run(folder, recipe, resume=resume, processes=processes, reporter=reporter)
        run.warnings += warnings
        yield photos, held_out, run, times


def _shipped_or_unlike(
    photos: PhotoSet, changes: dict[str, Any], minutes: float | None, reporter: Reporter
) -> tuple[Recipe, list[str], StepTimes]:
    """The recipe that starts from the shipped mapping, or another one if a try shows that it does not fit the photos.

    The try counts as part of the minutes.
    """
    begun = time.monotonic()
    fit = measure_fit(photos, changes.get("seed", 0), changes.get("device", "auto"), reporter)
    spent = time.monotonic() - begun
    if minutes is not None:
        minutes -= spent / 60
    if fit is not None:
        reporter.message(f"The shipped mapping {'fits' if fit.fits else 'does not fit'} these photos: {fit}.")
    if fit is None or fit.fits or changes.get("from_scratch") is False or changes.get("start_share"):
        return choose_from_shipped(photos, changes, minutes, reporter, spent)
    return choose_unlike(photos, changes, minutes, reporter, spent)


def _check(recipe_name: Source | None, options: dict[str, Any]) -> None:
    """Report a wrong option, an unknown backbone or an unusable mapping before photos are opened."""
    if recipe_name is not None:
        recipe = read_recipe(os.fspath(recipe_name)).replace(**options)
    else:  # whichever recipe is chosen, these options come with its second stage
        shares = bool(options.get("start_share"))
        needed = options.get("masks_from") or options.get("from_scratch") is False or shares
        comes = {"second_stage_steps": PHOTOS.second_stage_steps} if needed else {}
        comes |= {"from_scratch": False} if shares else {}
        recipe = Recipe().replace(**comes | options)
    source_of(recipe.backbone).check_name(recipe.backbone)
    if recipe.masks_from not in (None, "shipped"):
        SaliencyMapper.load(recipe.masks_from)


def _lacks_weights(photos: PhotoSet, recipe: Recipe, options: dict[str, Any]) -> str | None:
    """The warning that the backbone the user chose starts from random weights, which the user did not choose."""
    wanted = "backbone" in options and options.get("pretrained", True) and not isinstance(photos, Scenes)
    if not wanted or recipe.pretrained or recipe.weights:
        return None
    return (
        f"{recipe.backbone} starts from random weights: pretrained ones cannot be downloaded and are not in the extra "
        f"offline. Set {option('weights', 'FILE')} or {option('backbone', 'lite0')}; {option('pretrained', False)} "
        "accepts random weights."
    )


def _open(data: str, labels: Source | None, split: str | None) -> tuple[PhotoSet, list[str]]:
    """The photos, and a warning if some of the folder are skipped."""
    photos = open_photos(data, boxes=labels, split=split)
    if len(photos.classes) < 2:
        only = photos.classes[0]
        raise UserError(
            f"All photos in {data} are of one class, {only!r}, and training needs two or more: add a folder of photos "
            f"that show something else. Without classes, use the shipped mapping: casmap extract {data}."
        )
    if isinstance(photos, Scenes):
        return photos, []
    problems = photos.problems if isinstance(photos, PhotoFolder) else []
    skipped = [problem.what for problem in problems if problem.kind in (Kind.UNREADABLE, Kind.NO_CLASS)]
    many, first = counted(len(skipped), "photo"), "".join(skipped[:1])
    warning = f"Skipping {many}, the first: {first}. Reasons: casmap data check {data}"
    return photos, [warning] * bool(skipped)


def _share(given: Recipe | None, options: dict[str, Any], default: float) -> float:
    """The share of photos to hold out: the user's, the recipe's, or the default."""
    named = options.get("held_out") if given is None else given.held_out
    return default if named is None else float(named)


def _hold_out(found: PhotoSet, data: str, share: float, seed: int) -> tuple[PhotoSet, PhotoSet | None]:
    """The photos to train on, without unreadable ones, and those held out."""
    photos, held_out = hold_out(found, data, share, seed)
    return photos if isinstance(found, Scenes) else Readable(photos), held_out


def _about_held_out(photos: PhotoSet, held_out: PhotoSet | None) -> str:
    """What is said about held-out photos before the training."""
    if held_out is None:
        return f"Too few photos ({len(photos)}) to hold some out: the verdict will be measured on training photos."
    if isinstance(photos, Scenes):
        return f"The verdict will be measured on {len(held_out)} other scenes."
    return f"Held out for the verdict ({option('held_out')}): {len(held_out)} photos; for training: {len(photos)}."


def _flags(recipe: Recipe, given: dict[str, Any], options: dict[str, Any]) -> str:
    """The command-line options that repeat the choice, with those that the user gave."""
    names = ["backbone", "size", "steps", "second_stage_steps", "area" if recipe.area is not None else "lambda_r"]
    if recipe.masks_from is not None:  # no Algorithm 1: an option of it would start one
        names = ["backbone", "size", "second_stage_steps"]
    elif recipe.erase == "features" and "erase" not in options:  # `choose_unlike`
        given, names = given | {"recipe": "scans"}, ["size", "first_steps", "steps", "area", "second_stage_steps"]
    values = given | {name: getattr(recipe, name) for name in names}
    flags = []
    for name, value in (values | {key: value for key, value in options.items() if key not in REMOVED}).items():
        flag = name.replace("_", "-")
        flags.append(f"--{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f"--{flag} {value}")
    return " ".join(flags)
