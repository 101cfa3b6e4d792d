"""How quality depends on the length of training, for one fixed classifier (F) and for several (L, L100).

A figure that the paper does not have. The rows of a thinning are snapshots of one run (`casmap.training.snapshots`), so
a longer list of snapshots continues the same runs. Classifiers that took part in no training judge the masks, all
binary masks with the same area in every photo.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.errors import UserError
from casmap.evaluation.evaluate import System, localization_errors
from casmap.evaluation.insertion import most_salient_first, ranks
from casmap.evaluation.localization import continuous_f1, localization_error
from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation
from casmap.evaluation.numbers import Number, bootstrap_statistic, columns, mean_of, paired_difference, percent, points
from casmap.evaluation.table import FORMULAS, system_of
from casmap.evaluation.verdict import WHOLE
from casmap.inference.components import Binary, largest_box
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.paper.crops import Crops, read_crops
from casmap.paper.judges import fetched_judges, planned_judges, unseen_classifiers
from casmap.paper.outcome import Cell, Claim, Further, Outcome, verdict_below
from casmap.paper.plan import Experiment, Planned, planned_first
from casmap.paper.plots import panels_of_curves
from casmap.paper.setting import Setting, algorithm1_only
from casmap.paper.statistics import text
from casmap.paper.trainings import PAIR, begin
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import VERSIONS, fingerprint, logits_of_versions, open_matching_classifier
from casmap.training.recipes import PAPER, Recipe
from casmap.training.snapshots import without_end

SNAPSHOTS = (100, 300, 1000)
THINNINGS = ("F", "L100", "L")
BASELINE, CASM = PAIR["Baseline"], PAIR["CASM"]
AREA = 0.3  # share of each photo in the binary masks that classifiers judge
BATCH = 16
LE_AT_AREA = f"LE at area {AREA}"
# The measures, the direction that is better, and the factor with which they are shown.
MEASURES: dict[str, tuple[str, float]] = {
    "LE": ("↓", 100), "F1": ("↑", 100), "accuracy masked-out": ("↓", 100), "accuracy inpainted": ("↓", 100),
    "accuracy masked-in": ("↑", 100), LE_AT_AREA: ("↓", 100), "total variation": ("", 1), "mask entropy": ("", 1),
    "spread": ("", 1), "mean mask": ("", 1),
}  # fmt: skip
FIRST = tuple(MEASURES)[:4]
# The paper's numbers of L100 and F after 140,070 steps.
PAPERS = {
    "LE": "36.1 and 53.5", "total variation": "2,500 and 7,000", "mask entropy": "0.05 and 0.21",
    "accuracy inpainted": "the right panel of Figure 3, without numbers",
}  # fmt: skip

Row = tuple[str, int]  # a thinning and a number of steps
Values = dict[str, npt.NDArray[np.float64]]  # a measure of each photo: (trainings, N)


def run_length(
    setting: Setting, *, snapshots: Sequence[int] | None = None, thinnings: Sequence[str] | None = None,
    classifiers: Sequence[str] | None = None, recipe_score: bool = False, erase: str | None = None,
    size: int | None = None, each: int = 1, out: Path, reporter: Reporter = SILENT,
) -> Outcome:  # fmt: skip
    """Train each thinning `each` times to the last snapshot, all from one f(0), and measure every snapshot."""
    first, base = recipes_of(setting, recipe_score, erase, size)
    runs = {
        name: [base.replace(thinning=name, seed=base.seed + number) for number in range(each)]
        for name in thinnings or THINNINGS
    }
    photos, held_out = setting.both()
    for place in classifiers or ():  # report errors before training
        if place == base.backbone:
            raise UserError(f"{place} is the f(0) of all runs: name classifiers that take no part in their training.")
        open_matching_classifier(place, photos)
    study, trainings = begin("length", replace(setting, recipe=base), photos, held_out, out, reporter)
    f0 = trainings.classifier(photos, first)
    judges = unseen_classifiers(setting, classifiers, trainings)
    opened = {name: open_matching_classifier(place, held_out) for name, place in judges.items()}
    crops = read_crops(held_out, base.size)
    key = hashlib.sha256("".join(f"{name} {fingerprint(f)} " for name, f in opened.items()).encode()).hexdigest()[:8]

    def measured(recipe: Recipe, steps: int) -> dict[str, Any]:
        mapper = trainings.snapshot(photos, recipe, f0, steps)
        return measure(mapper, crops, system_of(mapper, held_out), opened, reporter)

    found: dict[Row, Values] = {}
    for steps in sorted(snapshots or SNAPSHOTS):
        for thinning, recipes in runs.items():
            parts = [study.part(f"{thinning} {r.seed} {steps} {key}", partial(measured, r, steps)) for r in recipes]
            found[thinning, steps] = {name: np.array([part[name] for part in parts], np.float64) for name in parts[0]}
    return length(found, list(judges), setting.data, base, each)


def recipes_of(setting: Setting, recipe_score: bool, erase: str | None, size: int | None) -> tuple[Recipe, Recipe]:
    """The recipes of f(0) and of the runs.

    Unless recipe_score: the paper's score, without a masked-in term, and, if pixels are erased, its shared encoder.
    """
    first = algorithm1_only(setting.recipe).replace(size=size or setting.recipe.size)
    base = without_end(first.replace(erase=erase or first.erase))
    if not recipe_score:
        encoder = PAPER.encoder if base.erase == "pixels" else base.encoder
        base = base.replace(score=PAPER.score, masked_in=PAPER.masked_in, sharpness=PAPER.sharpness, encoder=encoder)
    return first, base


def planned(
    setting: Setting, photos: int, classes: int, *, snapshots: Sequence[int] | None = None,
    thinnings: Sequence[str] | None = None, classifiers: Sequence[str] | None = None, recipe_score: bool = False,
    erase: str | None = None, size: int | None = None, each: int = 1,
) -> list[Planned]:  # fmt: skip
    """The trainings of run_length."""
    first, base = recipes_of(setting, recipe_score, erase, size)
    last = base.replace(steps=max(snapshots or SNAPSHOTS))
    runs = [Planned(name, last.replace(thinning=name), photos, classes, runs=each) for name in thinnings or THINNINGS]
    judges = planned_judges(setting, photos, classes, classifiers)
    return [*planned_first(replace(setting, recipe=first), photos, classes), *runs, *judges]


def measure(
    mapper: SaliencyMapper, crops: Crops, system: System, classifiers: dict[str, Classifier], reporter: Reporter
) -> dict[str, list[float]]:
    """Every measure of each photo, central crop; accuracies are means over the classifiers."""
    everything = range(0, len(crops), BATCH)
    masks = np.concatenate([system(crops.images[at : at + BATCH])[0] for at in everything]).astype(np.float32)
    boxes, binary = [truth.boxes for truth in crops.truths], highest(masks, AREA)
    found: dict[str, npt.NDArray[np.float64]] = {
        "LE": localization_errors(crops.predictions(np.arange(len(crops)), masks, None)),
        "F1": np.array([continuous_f1(mask, of) for mask, of in zip(masks, boxes, strict=True)]),
        LE_AT_AREA: localization_error([largest_box(one) for one in binary], boxes),
        "total variation": total_variation(masks), "mask entropy": mask_entropy(masks), "mean mask": mean_mask(masks),
    }  # fmt: skip
    correct = {version: np.zeros(len(crops)) for version in (WHOLE, *VERSIONS)}
    for at in reporter.track(everything if classifiers else (), "Batches, classifiers that took no part"):
        batch = slice(at, at + BATCH)
        for _, version, logits in logits_of_versions(classifiers, crops.images[batch], binary[batch]):
            correct[version][batch] += (logits.argmax(axis=1) == crops.labels[batch]) / len(classifiers)
    found |= {accuracy_on(version): of for version, of in correct.items() if classifiers}
    return {name: of.tolist() for name, of in found.items()}


def accuracy_on(version: str) -> str:
    """The name of the accuracy on a version of the photos.

    >>> accuracy_on("masked-out")
    'accuracy masked-out'
    """
    return f"accuracy {version}"


def highest(masks: npt.NDArray[np.float32], area: float) -> Binary:
    """Binary masks of the highest values of each mask, all with the same number of pixels: (N, H, W) -> (N, H, W).

    Of equal values random ones are chosen.

    >>> highest(np.array([[[0.1, 0.9], [0.4, 0.2]]], np.float32), 0.5)[0].tolist()
    [[False, True], [True, False]]
    """
    count = round(area * masks[0].size)
    return np.stack([ranks(most_salient_first(mask)).reshape(mask.shape) < count for mask in masks])


def length(found: dict[Row, Values], judges: Sequence[str], data: str, recipe: Recipe, each: int) -> Outcome:
    """A row for each snapshot, the differences from Baseline, and a figure of curves."""
    numbers = {row: _numbers(values) for row, values in found.items()}
    keys = [key for key in MEASURES if key in next(iter(numbers.values()))]
    first, more = [key for key in keys if key in FIRST], [key for key in keys if key not in FIRST]
    steps_of = sorted({steps for _, steps in found})
    thinnings = list(dict.fromkeys(thinning for thinning, _ in found))
    best = {(key, steps): _best(numbers, key, steps) for key in keys for steps in steps_of}

    def rows(chosen: Sequence[str]) -> list[list[Cell]]:
        return [
            [Cell(f"{steps:,}"), Cell(t), *(_cell(of[key], key, (t, steps) == best[key, steps]) for key in chosen)]
            for (t, steps), of in numbers.items()
        ]

    records = [
        {"thinning": thinning, "steps": steps}
        | {column: value for key in keys for column, value in columns(key, of[key]).items()}
        for (thinning, steps), of in numbers.items()
    ]
    further = [Further("The masks", ["steps", "", *map(_title, more)], rows(more))]
    pairs = [row for row in found if row[0] != BASELINE and (BASELINE, row[1]) in found]
    compared = [*first, LE_AT_AREA]
    differences = [
        [Cell(f"{s:,}"), Cell(f"{t} - {BASELINE}"), *(Cell(points(_less(found, (t, s), key))) for key in compared)]
        for t, s in pairs
    ]
    further += [Further("Differences in points", ["steps", "", *compared], differences)] if differences else []
    drawn = {
        f"{_title(key)}{', %' if MEASURES[key][1] == 100 else ''}":
        ({t: [(s, numbers[t, s][key]) for s in steps_of if (t, s) in numbers] for t in thinnings}, MEASURES[key][1])
        for key in (*first, *(key for key in more if key not in (LE_AT_AREA, "accuracy masked-in")))
    }  # fmt: skip
    judged = ""
    if judges:
        whole = percent(mean_of(next(iter(found.values()))[accuracy_on(WHOLE)][0]))
        judged = (
            f"Accuracies: mean of {', '.join(judges)}, which took part in no training ({whole} on whole photos); "
            f"binary masks are the highest {100 * AREA:.0f} % of the pixels of each mask. "
        )
    return Outcome(
        "length", f"Quality and the length of training, up to {steps_of[-1]:,} steps",
        f"{data}, seed {recipe.seed}, trainings each: {each}; {next(iter(found.values()))['LE'].shape[1]} held-out "
        f"photos. Snapshots of one run for each thinning, all from one f(0). {settings(recipe)} LE at alpha 1, central "
        f"crop; shares in percent with 95 % intervals over photos. {judged}{FORMULAS}.",
        ["steps", "", *map(_title, first)], rows(first), records,
        {"": panels_of_curves(drawn, "steps of Algorithm 1")}, claims(found, steps_of[-1]), further=further,
    )  # fmt: skip


def settings(recipe: Recipe) -> str:
    """What the runs share, and where it is not the paper's."""
    area = f"lambda_R adjusted to area {recipe.area}" if recipe.area else "the paper's lambda_R"
    norms = "of f(0)" if recipe.freeze_batch_norm else "learned, as in the paper"
    return (
        f"{recipe.backbone}, {recipe.size} px, batch {recipe.batch}, score {recipe.score}, masked-in term "
        f"{recipe.masked_in:g}, erased {recipe.erase}, encoder {recipe.encoder}, {area}, batch norm {norms}, "
        f"smallest crop {recipe.smallest_crop:g}, period of L100 {recipe.period or 100}. Not the paper's: constant "
        f"learning rates, {recipe.classifier_lr:g} (f) and {recipe.mapping_lr:g} (m)."
    )


def claims(found: dict[Row, Values], steps: int) -> list[Claim]:
    """The paper's comparisons of CASM with Baseline, at the last snapshot."""
    ours, theirs = (CASM, steps), (BASELINE, steps)
    if ours not in found or theirs not in found:
        return []
    lower = {key: _less(found, ours, key) for key in PAPERS if key in found[ours]}
    return [
        Claim(
            f"After {steps:,} steps {CASM} has a lower {key} than {BASELINE}", f"{PAPERS[key]}, after 140,070 steps",
            f"{CASM} - {BASELINE}: {points(by) if MEASURES[key][1] == 100 else text(by, signed=True)}",
            verdict_below([by]),
        )
        for key, by in lower.items()
    ]  # fmt: skip


def _numbers(values: Values) -> dict[str, Number]:
    """Each measure, a mean over trainings and photos, and the spread."""
    found = {key: mean_of(of.mean(axis=0)) for key, of in values.items()}

    def spread_of(masks: npt.NDArray[np.float64]) -> float:  # (N, trainings)
        return float(np.mean([spread(one) for one in masks.T]))

    masks = values["mean mask"].T
    return found | {"spread": Number(spread_of(masks), *bootstrap_statistic(masks, spread_of))}


def _less(found: dict[Row, Values], row: Row, key: str) -> Number:
    """A measure of a row less that of Baseline at the same step, on the same photos."""
    ours, theirs = found[row][key], found[BASELINE, row[1]][key]
    return paired_difference(ours.mean(axis=0), theirs.mean(axis=0))


def _best(numbers: dict[Row, dict[str, Number]], key: str, steps: int) -> Row | None:
    """The best row of a number of steps; None if no direction is better."""
    direction = MEASURES[key][0]
    values = {row: of[key].value for row, of in numbers.items() if row[1] == steps}
    return sorted(values, key=lambda row: values[row], reverse=direction == "↑")[0] if direction else None


def _cell(number: Number, key: str, best: bool) -> Cell:
    return Cell(percent(number) if MEASURES[key][1] == 100 else text(number), best)


def _title(key: str) -> str:
    return f"{key} {MEASURES[key][0]}".strip()


STUDY = Experiment(run_length, planned, fetched_judges)
