"""Table 3: objects of classes that neither the mapping nor any of its classifiers has seen in training."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.data.photos import of_classes
from casmap.errors import UserError
from casmap.evaluation.evaluate import Number, annotated_indices, localization_errors, map_photos
from casmap.evaluation.numbers import bootstrap_statistic, columns, mean_of, negated, percent, points
from casmap.evaluation.table import system_of
from casmap.paper.outcome import FAILS, HOLDS, TIE, Cell, Claim, Outcome, verdict_below
from casmap.paper.plan import Experiment, Planned
from casmap.paper.plots import ranked
from casmap.paper.setting import Setting, algorithm1_only, from_scratch, thinned
from casmap.paper.trainings import begin
from casmap.reporting import SILENT, Reporter

Floats = npt.NDArray[np.float64]
Letters = npt.NDArray[np.str_]

SHARES = {"A": 0.05, "B": 0.05, "C": 0.10, "D": 0.30, "E": 0.30, "F": 0.20}
TRAINED_ON = ("F", "EF", "DEF", "CDEF", "BCDEF", "ABCDEF")
PAPER = {
    "F": (46.5, 46.4, 48.1, 45.0, 45.7, 41.3, 44.9),
    "EF": (39.5, 41.2, 43.1, 40.3, 39.5, 38.7, 40.0),
    "DEF": (37.9, 39.3, 40.0, 38.0, 38.0, 37.4, 38.1),
    "CDEF": (38.2, 38.5, 39.9, 37.9, 37.9, 37.8, 38.1),
    "BCDEF": (36.7, 36.8, 39.9, 37.4, 37.0, 37.0, 37.4),
    "ABCDEF": (35.6, 36.1, 39.0, 37.0, 36.6, 36.7, 36.9),
}
SMALL = 0.03  # the largest difference that counts as "negligible": the paper's own are below 2 points


def run_table3(setting: Setting, *, out: Path, reporter: Reporter = SILENT) -> Outcome:
    """Six trainings, each with its own f(0) trained on the same classes only, each measured on all subsets."""
    photos, held_out = setting.both()
    subsets = _split_classes(list(photos.classes), setting.recipe.seed)
    letter_of = {name: letter for letter, names in subsets.items() for name in names}
    of_subset = np.array([letter_of[held_out.classes[held_out.labels[index]]] for index in annotated_indices(held_out)])
    if absent := [letter for letter in SHARES if letter not in of_subset]:
        raise UserError(f"No photo for measuring has a class of subset {absent[0]}: give more photos.")
    study, trainings = begin("table3", setting, photos, held_out, out, reporter)
    base = from_scratch(algorithm1_only(setting.recipe))

    def measured(letters: str) -> dict[str, Any]:
        seen = of_classes(photos, [name for letter in letters for name in subsets[letter]])
        mapper = trainings.mapper(seen, thinned(base, "L", len(seen)), trainings.classifier(seen, base))
        predictions = map_photos(system_of(mapper, held_out), held_out, mapper.size, "crop")
        return {"LE": localization_errors(predictions).tolist()}

    errors = {letters: np.array(study.part(letters, partial(measured, letters))["LE"]) for letters in TRAINED_ON}
    return table3(errors, of_subset, setting)


def planned(setting: Setting, photos: int, classes: int) -> list[Planned]:
    """The trainings of run_table3."""
    found = []
    for letters in TRAINED_ON:
        share = sum(SHARES[letter] for letter in letters)
        some = round(share * photos), round(share * classes)
        recipe = thinned(from_scratch(algorithm1_only(setting.recipe)), "L", some[0])
        found.append(Planned(", ".join(letters), recipe, *some, first=True))
    return found


def _split_classes(classes: list[str], seed: int) -> dict[str, list[str]]:
    """The classes in random subsets with the paper's proportions."""
    order = np.random.default_rng((seed, 3)).permutation(len(classes))
    ends = np.rint(np.cumsum(list(SHARES.values())) * len(classes)).astype(int)
    parts = np.split(order, ends[:-1])
    if any(len(part) < 1 for part in parts) or len(parts[-1]) < 2:
        raise UserError(f"Table 3 splits the classes into 5, 5, 10, 30, 30 and 20 percent: {len(classes)} are too few.")
    return {letter: [classes[i] for i in sorted(part)] for letter, part in zip(SHARES, parts, strict=True)}


def table3(errors: dict[str, Floats], of_subset: Letters, setting: Setting) -> Outcome:
    """LE (N,) of each training, by the subset (N,) of each photo."""
    numbers = {
        letters: {subset: mean_of(le[of_subset == subset]) for subset in SHARES} | {"All": mean_of(le)}
        for letters, le in errors.items()
    }
    best = {column: min(of[column].value for of in numbers.values()) for column in (*SHARES, "All")}
    rows, records = [], []
    for letters, of in numbers.items():
        cells, theirs = [Cell(_named(letters) if len(letters) < len(SHARES) else "All")], [Cell("in the paper")]
        for (column, number), value in zip(of.items(), PAPER[letters], strict=True):
            seen = "" if column == "All" else column in letters
            cells.append(Cell(percent(number).replace(" ", "\n", 1), number.value == best[column], seen is False))
            theirs.append(Cell(f"{value:.1f}", unseen=seen is False))
            record = {"trained on": letters, "tested on": column, "seen": seen}
            records.append(record | columns("LE", number) | {"paper LE": value})
        rows += [cells, theirs]
    partial_ones = TRAINED_ON[:-1]
    lost = {letters: errors[letters] - errors[TRAINED_ON[-1]] for letters in partial_ones}  # cancels the difficulty
    gaps = {letters: gap([lost[letters]], of_subset, [letters]) for letters in partial_ones}
    most = partial_ones[1:]  # trained on half of the classes or more
    pooled = gap([lost[letters] for letters in most], of_subset, list(most))
    return Outcome(
        "table3", "Table 3: unseen classes",
        f"{setting.data}, seed {setting.recipe.seed}; {len(of_subset)} held-out photos. LE in percent at alpha 1, with "
        "95 % intervals over photos; rows: the subsets of classes trained on, columns: those tested on; shaded, in "
        "italics: unseen in training, by the mapping and by f(0). Thinning L.",
        ["trained on", *SHARES, "All"], rows, records,
        {"": ranked({_named(of): lost for of, lost in gaps.items()}, "Increase of LE: unseen - seen, points, 95 %")},
        claims(gaps, pooled),
    )  # fmt: skip


def gap(losses: list[Floats], of_subset: Letters, trained_on: list[str]) -> Number:
    """How much more LE rises on unseen than on seen classes: a mean over trainings with its 95 % interval over photos.

    losses: for each training, LE of each photo (N,) minus that of the mapping trained on all classes.
    """
    seen = np.array([np.isin(of_subset, list(letters)) for letters in trained_on])  # (trainings, N)
    values = np.concatenate([np.array(losses), seen]).T  # (N, 2 trainings)

    def difference(chosen: Floats) -> float:
        of, known = chosen[:, : len(losses)].T, chosen[:, len(losses) :].T == 1
        gaps = [
            float(loss[~there].mean() - loss[there].mean())
            for loss, there in zip(of, known, strict=True)
            if 0 < there.sum() < len(there)
        ]
        return float(np.mean(gaps)) if gaps else 0.0

    return Number(difference(values), *bootstrap_statistic(values, difference))


def claims(gaps: dict[str, Number], pooled: Number) -> list[Claim]:
    """The paper's claims: with half of the classes or more, LE hardly rises on unseen ones; with a fifth, it does."""
    paper = ", ".join(f"{_named(letters)} {_paper_gap(letters):+.1f}" for letters in gaps)
    here = ", ".join(f"{_named(letters)} {points(number)}" for letters, number in gaps.items())
    fifth = gaps[TRAINED_ON[0]]
    return [
        Claim(
            "With half of the classes or more for training, the LE of unseen classes rises by no more than "
            f"{100 * SMALL:.0f} points beyond that of seen ones", paper, f"the four together {points(pooled)}; {here}",
            FAILS if pooled.low > SMALL else HOLDS if pooled.high < SMALL else TIE,
        ),
        Claim(
            "With a fifth of the classes, the LE of unseen classes rises more than that of seen ones",
            f"{_named(TRAINED_ON[0])} {_paper_gap(TRAINED_ON[0]):+.1f}", points(fifth), verdict_below([negated(fifth)]),
        ),
    ]  # fmt: skip


def _paper_gap(letters: str) -> float:
    """The same difference in the paper, each subset weighted by its classes."""
    lost = np.array(PAPER[letters][:-1]) - np.array(PAPER[TRAINED_ON[-1]][:-1])
    shares, seen = np.array(list(SHARES.values())), np.isin(list(SHARES), list(letters))
    return float(np.average(lost[~seen], weights=shares[~seen]) - np.average(lost[seen], weights=shares[seen]))


def _named(letters: str) -> str:
    return ", ".join(letters)


STUDY = Experiment(run_table3, planned)
