"""How many photos of each class CASM needs: a curve that the paper does not show."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from casmap.data.photos import few_of_each
from casmap.evaluation.evaluate import Number
from casmap.evaluation.numbers import columns, mean_of, percent
from casmap.paper.outcome import Cell, Outcome
from casmap.paper.plan import Experiment, Planned, planned_first
from casmap.paper.plots import curves
from casmap.paper.setting import Setting, thinned
from casmap.paper.table2 import measure
from casmap.paper.trainings import begin
from casmap.reporting import SILENT, Reporter
from casmap.training.first_classifier import is_pretrained_for

COUNTS = (1, 3, 10, 30)
TENTH = 0.1
WITH_ALL, WITH_FEW = "f(0) from all photos", "f(0) from the same few"


def run_fewshot(setting: Setting, *, out: Path, reporter: Reporter = SILENT) -> Outcome:
    """Train CASM on 1, 3, 10, 30, a tenth and all photos of each class, for the same number of steps.

    Once with the f(0) of all photos; once with an f(0) of the same few, unless pretrained weights are f(0). A class
    with fewer photos than a count contributes all of them.
    """
    photos, held_out = setting.both()
    study, trainings = begin("fewshot", setting, photos, held_out, out, reporter)
    largest = int(np.bincount(photos.labels, minlength=len(photos.classes)).max())
    counts = [count for count in counts_of(len(photos), len(photos.classes)) if count < largest]
    sets = {str(count): few_of_each(photos, count, setting.recipe.seed) for count in counts} | {"all": photos}
    steps, first_steps = setting.recipe.total_steps(len(photos)), setting.recipe.total_first_steps(len(photos))
    base = setting.recipe.replace(steps=steps, first_steps=first_steps)
    recipe = thinned(base, "L100", len(photos))

    def measured(count: str, few: bool) -> dict[str, Any]:
        first = trainings.classifier(sets[count] if few else photos, base)
        return measure(trainings.mapper(sets[count], recipe, first), held_out)

    lines: dict[str, dict[str, Number]] = {}
    for name in (WITH_ALL,) if is_pretrained_for(photos, setting.recipe) else (WITH_ALL, WITH_FEW):
        for count in sets:
            own = name == WITH_FEW and count != "all"  # with all photos, both are the same
            part = study.part(f"{count} {'few' if own else 'all'}", partial(measured, count, own))
            lines.setdefault(name, {})[count] = mean_of(part["LE"])
    return fewshot(lines, len(photos) / len(photos.classes), len(held_out), setting)


def counts_of(photos: int, classes: int) -> list[int]:
    """The numbers of photos per class, ascending: 1, 3, 10, 30, and a tenth of the average class.

    >>> counts_of(photos=2000, classes=40), counts_of(photos=40, classes=20)
    ([1, 3, 5, 10, 30], [1, 3, 10, 30])
    """
    return sorted({*COUNTS, max(1, round(TENTH * photos / classes))})


def planned(setting: Setting, photos: int, classes: int) -> list[Planned]:
    """The trainings of run_fewshot."""
    recipe = thinned(setting.recipe, "L100", photos)
    runs = sum(count < photos / classes for count in counts_of(photos, classes))
    few = Planned("f(0) from few photos, and mappings", recipe, photos, classes, runs=runs, first=True)
    mappings = Planned("mappings from one f(0)", recipe, photos, classes, runs=runs + 1)
    return [*planned_first(setting, photos, classes), mappings, *([few] if setting.trains_first(classes) else [])]


def fewshot(lines: dict[str, dict[str, Number]], each: float, held_out: int, setting: Setting) -> Outcome:
    """LE over photos per class; each: the number of photos per class in the whole set."""
    rows = [
        [Cell(count if count != "all" else f"all ({each:.0f})"), *(Cell(percent(of[count])) for of in lines.values())]
        for count in lines[WITH_ALL]
    ]
    records: list[dict[str, object]] = [
        {"photos per class": count if count != "all" else each, "f(0)": name, **columns("LE", number)}
        for name, line in lines.items() for count, number in line.items()
    ]  # fmt: skip
    drawn = {
        name: [(each if count == "all" else float(count), number) for count, number in line.items()]
        for name, line in lines.items()
    }
    return Outcome(
        "fewshot", "How many photos of each class?",
        f"{setting.data}, seed {setting.recipe.seed}; {held_out} held-out photos. CASM (L100) with the same number of "
        "steps for every number of photos. LE in percent at alpha 1, with 95 % intervals over photos.",
        ["photos per class", *lines], rows, records,
        {"": curves(drawn, "LE of CASM", "photos of each class", "LE, percent")},
    )  # fmt: skip


STUDY = Experiment(run_fewshot, planned)
