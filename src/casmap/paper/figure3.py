"""Figure 3: what other classifiers still see of photos that are masked in, masked out, or masked out and inpainted."""

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
from casmap.evaluation.numbers import apart, columns, mean_of, percent, points
from casmap.evaluation.table import system_of
from casmap.inference.components import Binary, binary_mask
from casmap.models.classifier import Classifier
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.plan import Experiment, Planned
from casmap.paper.plots import dots
from casmap.paper.setting import Setting, from_nothing
from casmap.paper.trainings import Entries, Files, Trainings, planned_entries
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import VERSIONS, WHOLE, answers, fingerprint, named, opened
from casmap.training.recipes import PAPER, Recipe

RANDOM = "random"
GRID = 4  # pixels of a cell of a random mask, as of the decoder's masks
BATCH = 16
KEPT = 2000  # photos after which what was seen is kept
# Architectures that learn scenes from nothing in minutes, and how many of each, one seed after the other.
QUICK_CLASSIFIERS = {"test_resnet": 4, "test_efficientnet": 2, "test_byobnet": 2, "test_vit": 2}
# The paper's seventeen from torchvision, as timm has them, beside twenty ResNet-50s of its own.
PAPER_CLASSIFIERS = tuple(
    f"{name}.tv_in1k"
    for name in (
        "densenet121", "densenet169", "densenet201", "densenet161", "resnet18", "resnet34", "resnet50", "resnet101",
        "resnet152", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
    )
)  # fmt: skip
PAPER_RESNETS = 20

Right = dict[str, dict[str, dict[str, list[bool]]]]  # of classifiers, systems, versions: whether so, photo by photo


def run_figure3(
    setting: Setting, *, mappings: Files = None, classifiers: Sequence[str] | None = None, out: Path,
    reporter: Reporter = SILENT,
) -> Outcome:  # fmt: skip
    """The accuracy of each classifier on what each mapping, and random masks of the same size, leave of the photos.

    mappings, classifiers: that were named; else both are trained on the photos of the setting.
    """
    if mappings and not classifiers:
        raise UserError("Name the classifiers to ask, e.g. --classifier lite0 --classifier lite1.")
    if not mappings:  # before anything is trained
        for place in classifiers or form(setting)[1]:
            opened(place, setting.training_photos())
    entries = Entries.open("figure3", setting, mappings=mappings, out=out, reporter=reporter)
    if RANDOM in entries.mappers:
        raise UserError(f"A mapping cannot be called {RANDOM!r} here: that is what random masks are called.")
    places = named(classifiers or ())
    if not places:  # quick ones are trained, the paper's are its own
        recipes, ready = form(setting)
        photos, trainings = setting.training_photos(), Trainings(out / "trainings", reporter=reporter)
        places = {name: str(trainings.classifier(photos, recipe)) for name, recipe in recipes.items()}
        places |= {name: name for name in ready}
    asked = {name: opened(place, entries.photos) for name, place in places.items()}
    found = ask(entries, asked, reporter)
    shared = str(next(iter(entries.mappers.values())).about["backbone"])
    backbones = {name: f.backbone for name, f in asked.items()}
    return figure3(found, backbones, shared, list(entries.mappers), entries.data, entries.papers)


def form(setting: Setting) -> tuple[dict[str, Recipe], Sequence[str]]:
    """The classifiers to train, by name, and those whose weights are to be had."""
    recipe, paper = setting.recipe, setting.recipe.backbone == PAPER.backbone
    counts = {PAPER.backbone: PAPER_RESNETS} if paper else QUICK_CLASSIFIERS
    base = from_nothing(recipe)  # of different random beginnings
    recipes = {
        f"{backbone}, seed {recipe.seed + number}": base.replace(backbone=backbone, seed=recipe.seed + number)
        for backbone, count in counts.items() for number in range(count)
    }  # fmt: skip
    return recipes, PAPER_CLASSIFIERS if paper else ()


def planned(
    setting: Setting, photos: int, classes: int, mappings: Files = None, classifiers: object = None
) -> list[Planned]:
    """What run_figure3 trains."""
    recipes = {} if mappings or classifiers else form(setting)[0]
    counts = Counter(recipe.backbone for recipe in recipes.values())
    each = {recipe.backbone: recipe for recipe in recipes.values()}
    return planned_entries(setting, photos, classes, mappings=mappings) + [
        Planned(f"classifiers: {backbone}", each[backbone], photos, classes, runs=count, first=True, maps=False)
        for backbone, count in counts.items()
    ]


def fetched(setting: Setting, mappings: object = None, classifiers: object = None) -> Sequence[str]:
    """Classifiers whose weights are to be had, where none is named."""
    return () if mappings or classifiers else form(setting)[1]


def ask(entries: Entries, asked: Mapping[str, Classifier], reporter: Reporter) -> Right:
    """For each classifier, system and version, photo by photo, whether it is right; some photos at a time are kept."""
    key = hashlib.sha256("".join(f"{name} {fingerprint(f)} " for name, f in asked.items()).encode()).hexdigest()[:8]
    photos = len(entries.photos)
    found: Right = {name: {} for name in asked}
    for system in (*entries.mappers, RANDOM):
        for begin in range(0, photos, KEPT):
            chosen = range(begin, min(begin + KEPT, photos))
            make = partial(look, entries, asked, system, chosen, reporter)
            for name, of in entries.study.part(f"{system} {begin} {key}", make).items():
                for version, right in of.items():
                    found[name].setdefault(system, {}).setdefault(version, []).extend(right)
    return found


def look(
    entries: Entries, asked: Mapping[str, Classifier], system: str, chosen: range, reporter: Reporter
) -> dict[str, Any]:
    """Whether each classifier is right about the chosen photos, whole and as a system's masks leave them."""
    photos, first = entries.photos, next(iter(entries.mappers))
    mapper = entries.mappers[first if system == RANDOM else system]
    size, masks_of = entries.mappers[first].size, system_of(mapper, photos)
    right: dict[str, dict[str, list[bool]]] = {name: {version: [] for version in (WHOLE, *VERSIONS)} for name in asked}
    for at in reporter.track(range(chosen.start, chosen.stop, BATCH), f"{system}, photo {chosen.start} on"):
        batch = range(at, min(at + BATCH, chosen.stop))
        pictures = np.stack([resize(photos.image(index), size, "crop") for index in batch])
        masks = binary_mask(masks_of(pictures)[0])
        if system == RANDOM:
            masks = np.stack([random_mask(mask, index) for mask, index in zip(masks, batch, strict=True)])
        for name, version, seen in answers(asked, pictures, masks):
            right[name][version] += (seen.argmax(axis=1) == photos.labels[list(batch)]).tolist()
    return dict(right)


def random_mask(mask: Binary, seed: int) -> Binary:
    """As many pixels as a binary mask (H, W) has, in cells drawn by lot.

    >>> mask = np.zeros((8, 8), bool)
    >>> mask[:4, :4] = True
    >>> int(random_mask(mask, seed=0).sum())
    16
    """
    height, width = mask.shape
    chance = np.random.default_rng((seed, 3))
    cells = chance.random((-(-height // GRID), -(-width // GRID)))
    noise = np.kron(cells, np.ones((GRID, GRID)))[:height, :width]
    chosen = np.argsort(noise, axis=None, kind="stable")[: int(mask.sum())]
    found = np.zeros(mask.size, bool)
    found[chosen] = True
    return found.reshape(mask.shape)


def figure3(
    found: Right, backbones: dict[str, str], shared: str, mappings: list[str], data: str, papers: bool
) -> Outcome:
    """The dots, the accuracies, and what the paper concludes; shared: the backbone of the mapping's own classifier."""
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
        "figure3", "Figure 3: what other classifiers still see",
        f"{data}; {photos} photos, {len(found)} classifiers. Accuracy in percent on whole photos, with its 95 % "
        "interval over photos, and on those masked in, masked out, and masked out and inpainted; alpha 1. Random masks "
        f"have as many pixels as {mappings[0]}'s, in cells of {GRID} pixels. Orange: {shared}, the backbone of the "
        "mapping's own classifier; blue: others.",
        ["classifier", WHOLE, *(f"{version}, {system}" for version in VERSIONS for system in systems)], rows, records,
        {"": dots(panels, "Accuracy of classifiers, percent", "accuracy", (shared, "other architectures"))},
        claims(found, mappings) if papers else [],
    )  # fmt: skip


def claims(found: Right, mappings: list[str]) -> list[Claim]:
    """About the accuracy, a mean over classifiers photo by photo, of our mapping and the one it is compared with."""
    ours, theirs = mappings[:2]

    def right(system: str, version: str) -> npt.NDArray[np.float64]:
        return np.asarray(np.mean([of[system][version] for of in found.values()], axis=0))

    kept = apart(right(theirs, "masked-in"), right(ours, "masked-in"))
    gains = {name: apart(right(name, "inpainted"), right(name, "masked-out")) for name in (ours, theirs)}
    more = apart(*(right(name, "inpainted") - right(name, "masked-out") for name in (ours, theirs)))
    left = apart(right(ours, "inpainted"), right(theirs, "inpainted"))
    return [
        Claim(
            f"Classifiers suffer less from what {ours} masks in than from what {theirs} does",
            "the left panel of Figure 3, without numbers",
            f"accuracy masked in, {theirs} - {ours}: {points(kept)}", verdict_below([kept]),
        ),
        Claim(
            f"Inpainting helps classifiers against {theirs}'s masks more than against {ours}'s",
            "the middle and right panels of Figure 3, without numbers",
            f"accuracy inpainted - masked out: {ours} {points(gains[ours])}, {theirs} {points(gains[theirs])}; "
            f"the one minus the other {points(more)}", verdict_below([more]),
        ),
        Claim(
            f"Inpainted, what {theirs} masks out is easier to tell than what {ours} does",
            "the right panel of Figure 3, without numbers",
            f"accuracy inpainted, {ours} - {theirs}: {points(left)}", verdict_below([left]),
        ),
    ]  # fmt: skip


STUDY = Experiment(run_figure3, planned, fetched)
