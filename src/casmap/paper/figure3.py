"""Figure 3: the accuracy of other classifiers on photos that are masked in, masked out, or inpainted."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.data.resizing import resize
from casmap.errors import UserError
from casmap.evaluation.numbers import columns, mean_of, paired_difference, percent, points
from casmap.evaluation.table import system_of
from casmap.evaluation.verdict import WHOLE
from casmap.inference.components import Binary, binary_mask
from casmap.models.classifier import Classifier
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.plan import Experiment, Planned
from casmap.paper.plots import dots
from casmap.paper.setting import Setting, from_scratch
from casmap.paper.trainings import Entries, Files, Trainings, planned_entries
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import (
    VERSIONS,
    fingerprint,
    logits_of_versions,
    open_matching_classifier,
    short_names,
)  # fmt: skip
from casmap.training.recipes import PAPER, Recipe

RANDOM = "random"
GRID = 4  # side of a cell of a random mask in pixels, as of the decoder's masks
BATCH = 16
KEPT = 2000  # photos whose results are saved at a time
# Architectures that learn scenes from scratch in minutes, and how many of each, with consecutive seeds.
QUICK_CLASSIFIERS = {"test_resnet": 4, "test_efficientnet": 2, "test_byobnet": 2, "test_vit": 2}
# The paper's seventeen classifiers from torchvision, in timm's names, besides its own twenty ResNet-50s.
PAPER_CLASSIFIERS = tuple(
    f"{name}.tv_in1k"
    for name in (
        "densenet121", "densenet169", "densenet201", "densenet161", "resnet18", "resnet34", "resnet50", "resnet101",
        "resnet152", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
    )
)  # fmt: skip
PAPER_RESNETS = 20

Correct = dict[str, dict[str, dict[str, list[bool]]]]  # by classifier, system and version: for each photo


def run_figure3(
    setting: Setting, *, mappings: Files = None, classifiers: Sequence[str] | None = None, out: Path,
    reporter: Reporter = SILENT,
) -> Outcome:  # fmt: skip
    """The accuracy of each classifier on photos masked by each mapping, and by random masks of the same area.

    mappings, classifiers: if not given, both are trained on the photos of the setting.
    """
    if mappings and not classifiers:
        raise UserError("Name the classifiers to test, e.g. --classifier lite0 --classifier lite1.")
    if not mappings:  # report errors before training
        for place in classifiers or default_classifiers(setting)[1]:
            open_matching_classifier(place, setting.training_photos())
    entries = Entries.open("figure3", setting, mappings=mappings, out=out, reporter=reporter)
    if RANDOM in entries.mappers:
        raise UserError(f"A mapping cannot be named {RANDOM!r} in this study: that is the name of the random masks.")
    places = short_names(classifiers or ())
    if not places:  # with --quick they are trained, with --paper they are the paper's
        recipes, ready = default_classifiers(setting)
        photos, trainings = setting.training_photos(), Trainings(out / "trainings", reporter=reporter)
        places = {name: str(trainings.classifier(photos, recipe)) for name, recipe in recipes.items()}
        places |= {name: name for name in ready}
    opened = {name: open_matching_classifier(place, entries.photos) for name, place in places.items()}
    found = measure_classifiers(entries, opened, reporter)
    shared = str(next(iter(entries.mappers.values())).about["backbone"])
    backbones = {name: f.backbone for name, f in opened.items()}
    return figure3(found, backbones, shared, list(entries.mappers), entries.data, entries.papers)


def default_classifiers(setting: Setting) -> tuple[dict[str, Recipe], Sequence[str]]:
    """The recipes of the classifiers to train, by name, and the names of those with pretrained weights."""
    recipe, paper = setting.recipe, setting.recipe.backbone == PAPER.backbone
    counts = {PAPER.backbone: PAPER_RESNETS} if paper else QUICK_CLASSIFIERS
    base = from_scratch(recipe)  # the seeds initialise them differently
    recipes = {
        f"{backbone}, seed {recipe.seed + number}": base.replace(backbone=backbone, seed=recipe.seed + number)
        for backbone, count in counts.items() for number in range(count)
    }  # fmt: skip
    return recipes, PAPER_CLASSIFIERS if paper else ()


def planned(
    setting: Setting, photos: int, classes: int, mappings: Files = None, classifiers: object = None
) -> list[Planned]:
    """The trainings of run_figure3."""
    recipes = {} if mappings or classifiers else default_classifiers(setting)[0]
    counts = Counter(recipe.backbone for recipe in recipes.values())
    each = {recipe.backbone: recipe for recipe in recipes.values()}
    return planned_entries(setting, photos, classes, mappings=mappings) + [
        Planned(f"classifiers: {backbone}", each[backbone], photos, classes, runs=count, first=True, maps=False)
        for backbone, count in counts.items()
    ]


def fetched(setting: Setting, mappings: object = None, classifiers: object = None) -> Sequence[str]:
    """Classifiers whose weights are downloaded if none are given."""
    return () if mappings or classifiers else default_classifiers(setting)[1]


def measure_classifiers(entries: Entries, classifiers: Mapping[str, Classifier], reporter: Reporter) -> Correct:
    """Whether each classifier is correct, for each system, version and photo; saved after every KEPT photos."""
    weights = "".join(f"{name} {fingerprint(f)} " for name, f in classifiers.items())
    key = hashlib.sha256(weights.encode()).hexdigest()[:8]
    photos = len(entries.photos)
    found: Correct = {name: {} for name in classifiers}
    for system in (*entries.mappers, RANDOM):
        for begin in range(0, photos, KEPT):
            chosen = range(begin, min(begin + KEPT, photos))
            make = partial(classify, entries, classifiers, system, chosen, reporter)
            for name, of in entries.study.part(f"{system} {begin} {key}", make).items():
                for version, correct in of.items():
                    found[name].setdefault(system, {}).setdefault(version, []).extend(correct)
    return found


def classify(
    entries: Entries, classifiers: Mapping[str, Classifier], system: str, chosen: range, reporter: Reporter
) -> dict[str, Any]:
    """Whether each classifier is correct for the chosen photos, whole and masked by a system."""
    photos, first = entries.photos, next(iter(entries.mappers))
    mapper = entries.mappers[first if system == RANDOM else system]
    size, masks_of = entries.mappers[first].size, system_of(mapper, photos)
    correct: dict[str, dict[str, list[bool]]] = {name: {v: [] for v in (WHOLE, *VERSIONS)} for name in classifiers}
    for at in reporter.track(range(chosen.start, chosen.stop, BATCH), f"{system}, from photo {chosen.start}"):
        batch = range(at, min(at + BATCH, chosen.stop))
        images = np.stack([resize(photos.image(index), size, "crop") for index in batch])
        masks = binary_mask(masks_of(images)[0])
        if system == RANDOM:
            masks = np.stack([_random_mask(mask, index) for mask, index in zip(masks, batch, strict=True)])
        for name, version, logits in logits_of_versions(classifiers, images, masks):
            correct[name][version] += (logits.argmax(axis=1) == photos.labels[list(batch)]).tolist()
    return dict(correct)


def _random_mask(mask: Binary, seed: int) -> Binary:
    """A binary mask (H, W) with the same number of pixels, in random cells."""
    height, width = mask.shape
    random = np.random.default_rng((seed, 3))
    cells = random.random((-(-height // GRID), -(-width // GRID)))
    noise = np.kron(cells, np.ones((GRID, GRID)))[:height, :width]
    chosen = np.argsort(noise, axis=None, kind="stable")[: int(mask.sum())]
    found = np.zeros(mask.size, bool)
    found[chosen] = True
    return found.reshape(mask.shape)


def figure3(
    found: Correct, backbones: dict[str, str], shared: str, mappings: list[str], data: str, papers: bool
) -> Outcome:
    """The figure, the accuracies and the paper's claims; shared: the backbone of the mapping's own classifier."""
    systems = list(next(iter(found.values())))
    rows, records = [], []
    for name, of in found.items():
        whole = mean_of(of[systems[0]][WHOLE])
        numbers = {(version, system): mean_of(of[system][version]) for version in VERSIONS for system in systems}
        rows.append([Cell(name), Cell(percent(whole)), *(Cell(f"{100 * x.value:.1f}") for x in numbers.values())])
        records += [
            {"classifier": name, "backbone": backbones[name], "masks": system, "version": version}
            | columns("accuracy", number)
            for (version, system), number in {(WHOLE, "none"): whole, **numbers}.items()
        ]
    panels = {
        version: {
            system: [(float(np.mean(of[system][version])), backbones[name] == shared) for name, of in found.items()]
            for system in systems
        }
        for version in VERSIONS
    }
    photos = len(next(iter(found.values()))[systems[0]][WHOLE])
    return Outcome(
        "figure3", "Figure 3: what other classifiers still recognise",
        f"{data}; {photos} photos, {len(found)} classifiers. Accuracy in percent on whole photos, with its 95 % "
        "interval over photos, and on photos masked in, masked out, and inpainted; alpha 1. Random masks have as many "
        f"pixels as {mappings[0]}'s, in cells of {GRID} pixels. Orange: {shared}, the backbone of the mapping's own "
        "classifier; blue: others.",
        ["classifier", WHOLE, *(f"{version}, {system}" for version in VERSIONS for system in systems)], rows, records,
        {"": dots(panels, "Accuracy of classifiers, percent", "accuracy", (shared, "other architectures"))},
        claims(found, mappings) if papers else [],
    )  # fmt: skip


def claims(found: Correct, mappings: list[str]) -> list[Claim]:
    """Claims about the accuracy, a mean over classifiers for each photo, of the first mapping and the second."""
    ours, theirs = mappings[:2]

    def accuracy(system: str, version: str) -> npt.NDArray[np.float64]:
        return np.asarray(np.mean([of[system][version] for of in found.values()], axis=0))

    kept = paired_difference(accuracy(theirs, "masked-in"), accuracy(ours, "masked-in"))
    gained = {name: accuracy(name, "inpainted") - accuracy(name, "masked-out") for name in (ours, theirs)}
    gains = {name: mean_of(of) for name, of in gained.items()}
    more = paired_difference(gained[ours], gained[theirs])
    left = paired_difference(accuracy(ours, "inpainted"), accuracy(theirs, "inpainted"))
    return [
        Claim(
            f"Classifiers lose less accuracy on photos masked in by {ours} than by {theirs}",
            "the left panel of Figure 3, without numbers",
            f"accuracy masked in, {theirs} - {ours}: {points(kept)}", verdict_below([kept]),
        ),
        Claim(
            f"Inpainting raises the accuracy on photos masked out by {theirs} more than by {ours}",
            "the middle and right panels of Figure 3, without numbers",
            f"accuracy inpainted - masked out: {ours} {points(gains[ours])}, {theirs} {points(gains[theirs])}; "
            f"difference {points(more)}", verdict_below([more]),
        ),
        Claim(
            f"After inpainting, photos masked by {theirs} are easier to classify than those masked by {ours}",
            "the right panel of Figure 3, without numbers",
            f"accuracy inpainted, {ours} - {theirs}: {points(left)}", verdict_below([left]),
        ),
    ]  # fmt: skip


STUDY = Experiment(run_figure3, planned, fetched)
