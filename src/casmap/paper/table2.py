"""Table 2: the effect of the score, the shared encoder and the thinning."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from casmap.data.photos import PhotoSet
from casmap.evaluation.evaluate import localization_errors, map_photos
from casmap.evaluation.localization import continuous_f1, official_metric
from casmap.evaluation.numbers import columns, mean_of, negated, paired_difference, percent, points
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.plan import Experiment, Planned, planned_mappings
from casmap.paper.plots import ranked
from casmap.paper.setting import Setting, algorithm1_only, thinned
from casmap.paper.trainings import begin
from casmap.reporting import SILENT, Reporter
from casmap.training.recipes import Recipe

Pairs = tuple[tuple[str, str], ...]

MEASURES = ("OM", "LE", "F1")
BETTER = {"OM": min, "LE": min, "F1": max}


@dataclass(frozen=True)
class Variant:
    """A row: E (entropy) or C (classification loss), shared encoder or not, thinning; the paper's OM, LE, F1."""

    letter: str
    score: str
    shared: bool
    thinning: str
    paper: tuple[float | None, float, float | None]

    @property
    def name(self) -> str:
        """As in the paper: (e) E Y L100."""
        return f"({self.letter}) {self.score} {'Y' if self.shared else 'N'} {self.thinning}"

    def recipe(self, base: Recipe, photos: int) -> Recipe:
        """The recipe of this row; everything else is as in the base."""
        score, encoder = "entropy" if self.score == "E" else "loss", "shared" if self.shared else "separate"
        return thinned(base.replace(score=score, encoder=encoder), self.thinning, photos)


VARIANTS = (
    Variant("a", "E", True, "F", (62.7, 53.5, 49.0)),
    Variant("b", "E", True, "L", (49.0, 36.5, 61.7)),
    Variant("c", "E", True, "FL", (52.7, 41.3, 57.2)),
    Variant("d", "E", True, "L1000", (48.7, 36.2, 61.6)),
    Variant("e", "E", True, "L100", (48.6, 36.1, 61.4)),
    Variant("f", "C", True, "F", (80.8, 75.9, 42.5)),
    Variant("g", "C", True, "L", (49.5, 37.0, 62.2)),
    Variant("h", "C", True, "L100", (49.7, 37.3, 62.1)),
    Variant("i", "E", False, "F", (None, 55.5, None)),
    Variant("j", "E", False, "L", (None, 47.2, None)),
    Variant("k", "E", False, "L100", (None, 46.8, None)),
)
# The paper's conclusions: the measure, and pairs of rows of which the first is better.
CONCLUSIONS: dict[str, tuple[str, Pairs]] = {
    "Entropy is a better score than the classification loss": ("LE", (("a", "f"), ("b", "g"), ("e", "h"))),
    "The same by the official metric": ("OM", (("a", "f"), ("b", "g"), ("e", "h"))),
    "By F1 it is the reverse, if the classifier keeps learning": ("F1", (("g", "b"), ("h", "e"))),
    "L, L100 and L1000 are better than FL": ("LE", (("b", "c"), ("e", "c"), ("d", "c"))),
    "FL is better than F": ("LE", (("c", "a"),)),
    "L100 and L1000 are slightly better than L": ("LE", (("e", "b"), ("d", "b"))),
    "A shared encoder is better than a separate one": ("LE", (("a", "i"), ("b", "j"), ("e", "k"))),
}


def run_table2(setting: Setting, *, out: Path, reporter: Reporter = SILENT) -> Outcome:
    """Train and measure all eleven rows from the same f(0); finished rows are not repeated."""
    photos, held_out = setting.both()
    study, trainings = begin("table2", setting, photos, held_out, out, reporter)
    base = algorithm1_only(setting.recipe)
    recipes = {variant: variant.recipe(base, len(photos)) for variant in VARIANTS}

    def measured(recipe: Recipe) -> dict[str, Any]:
        return measure(trainings.mapper(photos, recipe, trainings.classifier(photos, base)), held_out)

    values = {variant: study.part(variant.letter, partial(measured, recipe)) for variant, recipe in recipes.items()}
    return table2(values, setting)


def planned(setting: Setting, photos: int, classes: int) -> list[Planned]:
    """The trainings of run_table2."""
    recipes = {variant.name: variant.recipe(algorithm1_only(setting.recipe), photos) for variant in VARIANTS}
    return planned_mappings(setting, photos, classes, recipes)


def measure(mapper: SaliencyMapper, photos: PhotoSet) -> dict[str, Any]:
    """OM, LE and F1 of each photo, and the mean mask; only LE if the mapping predicts no classes, as in the paper."""
    predictions = map_photos(system_of(mapper, photos), photos, mapper.size, "crop")
    errors = localization_errors(predictions)
    found = {"LE": errors.tolist(), "area": float(predictions.masks.mean(dtype=np.float64))}
    if np.isnan(predictions.class_correct).any():
        return found
    f1 = [continuous_f1(mask, truth.boxes) for mask, truth in zip(predictions.masks, predictions.truths, strict=True)]
    return found | {"OM": official_metric(errors, predictions.class_correct.astype(bool)).tolist(), "F1": f1}


def table2(values: dict[Variant, dict[str, Any]], setting: Setting) -> Outcome:
    """The table, a figure of LE, and which of the paper's conclusions hold."""
    numbers = {v: {key: mean_of(of[key]) for key in MEASURES if key in of} for v, of in values.items()}
    best = {key: BETTER[key](of[key].value for of in numbers.values() if key in of) for key in MEASURES}
    rows, records = [], []
    for variant, of in numbers.items():
        area = values[variant]["area"]
        cells = [Cell(percent(of[key]), of[key].value == best[key]) if key in of else Cell("-") for key in MEASURES]
        paper = [Cell("-" if value is None else f"{value:.1f}") for value in variant.paper]
        rows.append([Cell(variant.name), *cells, Cell(f"{area:.2f}"), *paper])
        records.append(
            {"row": variant.letter, "score": variant.score, "shared": variant.shared, "thinning": variant.thinning}
            | {column: value for key in of for column, value in columns(key, of[key]).items()}
            | {"area": area}
            | {f"paper {key}": value for key, value in zip(MEASURES, variant.paper, strict=True)}
        )
    by_letter = {variant.letter: (variant, of) for variant, of in values.items()}
    photos = len(values[VARIANTS[0]]["LE"])
    return Outcome(
        "table2", "Table 2: score, sharing and thinning",
        f"{setting.data}, seed {setting.recipe.seed}; {photos} held-out photos. Each row is one training, all from the "
        "same f(0). E: entropy, C: classification loss; Y, N: encoder shared or not. The periods of L100 and L1000 are "
        "the same share of the run as in the paper, rounded up to whole steps. OM, LE and F1 in percent at alpha 1, "
        "with 95 % intervals over photos.",
        ["", "OM ↓", "LE ↓", "F1 ↑", "area", "paper's OM", "LE", "F1"], rows, records,
        {"": ranked({v.name: of["LE"] for v, of in numbers.items()}, "LE in percent, 95 %", marked=["(e) E Y L100"])},
        [conclude(statement, *what, by_letter) for statement, what in CONCLUSIONS.items()],
    )  # fmt: skip


def conclude(statement: str, measure: str, pairs: Pairs, rows: dict[str, tuple[Variant, dict[str, Any]]]) -> Claim:
    """Whether the first of each pair is better, on the same photos."""
    place = MEASURES.index(measure)
    differences = {pair: paired_difference(*(rows[letter][1][measure] for letter in pair)) for pair in pairs}
    below = [negated(difference) if BETTER[measure] is max else difference for difference in differences.values()]
    return Claim(
        f"{statement} ({measure})",
        ", ".join(f"{rows[a][0].paper[place]} and {rows[b][0].paper[place]} ({a}, {b})" for a, b in pairs),
        ", ".join(f"({a}) - ({b}) {points(difference)}" for (a, b), difference in differences.items()),
        verdict_below(below),
    )


STUDY = Experiment(run_table2, planned)
