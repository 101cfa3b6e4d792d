"""How much does a result vary between trainings? CASM and Baseline trained with several seeds from the same f(0)."""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind

from casmap.evaluation.evaluate import Number
from casmap.evaluation.numbers import points
from casmap.paper.outcome import FAILS, HOLDS, TIE, Cell, Claim, Outcome
from casmap.paper.plan import Experiment, Planned, planned_mappings
from casmap.paper.plots import ranked
from casmap.paper.setting import Setting, thinned
from casmap.paper.table2 import measure
from casmap.paper.trainings import PAIR, begin
from casmap.reporting import SILENT, Reporter

SIGNIFICANT = 0.05
PAPER = "CASM 36.1 (best 36.0, worst 36.3, ten runs), Baseline 53.5"


def run_seeds(setting: Setting, *, each: int = 5, out: Path, reporter: Reporter = SILENT) -> Outcome:
    """Train each `each` times with consecutive seeds; f(0) is the same for all, as in the paper."""
    photos, held_out = setting.both()
    study, trainings = begin("seeds", setting, photos, held_out, out, reporter)
    seeds = [setting.recipe.seed + number for number in range(each)]

    def measured(name: str, seed: int) -> dict[str, Any]:
        first = trainings.classifier(photos, setting.recipe)
        recipe = thinned(setting.recipe, PAIR[name], len(photos)).replace(seed=seed)
        return measure(trainings.mapper(photos, recipe, first), held_out)

    errors = {
        name: [float(np.mean(study.part(f"{name}-{seed}", partial(measured, name, seed))["LE"])) for seed in seeds]
        for name in PAIR
    }
    return seeds_outcome(errors, seeds, len(held_out), setting)


def planned(setting: Setting, photos: int, classes: int, *, each: int = 5) -> list[Planned]:
    """The trainings of run_seeds."""
    recipes = {name: thinned(setting.recipe, thinning, photos) for name, thinning in PAIR.items()}
    return planned_mappings(setting, photos, classes, recipes, runs=each)


def seeds_outcome(errors: dict[str, list[float]], seeds: list[int], photos: int, setting: Setting) -> Outcome:
    """Mean, best and worst LE of each, and whether the difference is significant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # identical results have no variance to test with
        test = ttest_ind(errors["CASM"], errors["Baseline"], equal_var=False)
    interval = test.confidence_interval(0.95)
    difference = float(np.mean(errors["CASM"]) - np.mean(errors["Baseline"]))
    rows = [
        [Cell(name), *(Cell(f"{100 * f(of):.1f}") for f in (np.mean, min, max, partial(np.std, ddof=1)))]
        for name, of in errors.items()
    ]
    records = [
        {"mapping": name, "seed": seed, "LE": value}
        for name, of in errors.items() for seed, value in zip(seeds, of, strict=True)
    ]  # fmt: skip
    spans = {name: Number(float(np.mean(of)), min(of), max(of)) for name, of in errors.items()}
    verdict = TIE if not test.pvalue < SIGNIFICANT else HOLDS if difference < 0 else FAILS  # a nan p-value is a tie
    claim = Claim(
        "CASM is better than Baseline, and the difference is significant over trainings (LE)", PAPER,
        f"{points(Number(difference, *interval))}, p = {test.pvalue:.2g}, {len(seeds)} trainings each", verdict,
    )  # fmt: skip
    return Outcome(
        "seeds", "Seeds: variance between trainings",
        f"{setting.data}; {len(seeds)} trainings each, seeds {seeds[0]} to {seeds[-1]}, from one f(0); {photos} "
        "held-out photos, LE in percent at alpha 1. Two-sided Welch's t-test over trainings.",
        ["", "mean LE ↓", "best", "worst", "standard deviation"], rows, records,
        {"": ranked(spans, "LE in percent: mean, best and worst training", marked=["CASM"])}, [claim],
    )  # fmt: skip


STUDY = Experiment(run_seeds, planned)
