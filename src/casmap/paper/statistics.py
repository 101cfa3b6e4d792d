"""Basic statistics of masks: total variation, entropy, mean, and spread of the mean."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.evaluation.evaluate import Number
from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, spread, total_variation
from casmap.evaluation.numbers import bootstrap_statistic, columns, mean_of, negated, paired_difference
from casmap.evaluation.table import FORMULAS
from casmap.inference.mapper import SaliencyMapper
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.plan import Experiment
from casmap.paper.plots import histograms
from casmap.paper.setting import Setting
from casmap.paper.trainings import Entries, Files, planned_entries
from casmap.reporting import SILENT, Reporter

BATCH = 16
TOTAL_VARIATION, ENTROPY, AREA, SPREAD = "total variation", "mask entropy", "mean mask", "spread of volume"
SHOWN = (TOTAL_VARIATION, ENTROPY, AREA)
PAPER = {TOTAL_VARIATION: "2,500 and 7,000", ENTROPY: "0.05 and 0.21", SPREAD: "0.19 and 0.14"}  # CASM and Baseline


def run_statistics(setting: Setting, *, mappings: Files = None, out: Path, reporter: Reporter = SILENT) -> Outcome:
    """Measure the masks of all photos, central crop, of the given mappings, or of CASM and Baseline."""
    entries = Entries.open("statistics", setting, mappings=mappings, out=out, reporter=reporter)
    found = {
        name: entries.study.part(name, partial(measure, mapper, entries.photos, reporter))
        for name, mapper in entries.mappers.items()
    }
    return statistics(found, entries.data, entries.papers)


def measure(mapper: SaliencyMapper, photos: PhotoSet, reporter: Reporter) -> dict[str, Any]:
    """Total variation, entropy and mean of the mask of each photo."""
    parts = []
    for at in reporter.track(range(0, len(photos), BATCH), "Batches of masks"):
        images = [photos.image(index) for index in range(at, min(at + BATCH, len(photos)))]
        masks, _ = mapper.masks(np.stack([resize(image, mapper.size, "crop") for image in images]))
        parts.append(np.stack([total_variation(masks), mask_entropy(masks), mean_mask(masks)]))
    values = np.concatenate(parts, axis=1)
    return {name: of.tolist() for name, of in zip(SHOWN, values, strict=True)}


def statistics(found: dict[str, dict[str, Any]], data: str, papers: bool) -> Outcome:
    """One row for each statistic, one column for each mapping; papers: the first two are CASM and Baseline."""
    volumes = {name: np.asarray(of[AREA], np.float64) for name, of in found.items()}
    spreads = {name: Number(spread(of), *bootstrap_statistic(of, spread)) for name, of in volumes.items()}
    numbers = {name: {key: mean_of(of[key]) for key in SHOWN} | {SPREAD: spreads[name]} for name, of in found.items()}
    rows = [
        [Cell(key), *(Cell(text(of[key])) for of in numbers.values()), Cell(PAPER.get(key, "-"))]
        for key in (TOTAL_VARIATION, ENTROPY, SPREAD, AREA)
    ]
    records = [
        {"mapping": name} | {column: value for key in of for column, value in columns(key, of[key]).items()}
        for name, of in numbers.items()
    ]
    photos = len(next(iter(found.values()))[AREA])
    panels = {key: {name: of[key] for name, of in found.items()} for key in SHOWN}
    return Outcome(
        "statistics", "Basic statistics of the masks",
        f"{data}; {photos} photos, central crop, masks before any threshold; 95 % intervals over photos. {FORMULAS}. "
        "Total variation grows with the side of the image.",
        ["", *found, "in the paper: CASM and Baseline"], rows, records,
        {"": histograms(panels, "Masks of all photos")}, claims(found) if papers else [],
    )  # fmt: skip


def claims(found: dict[str, dict[str, Any]]) -> list[Claim]:
    """Claims about the first mapping compared with the second."""
    (ours, a), (theirs, b) = list(found.items())[:2]

    def spread_difference(pairs: npt.NDArray[np.float64]) -> float:
        return spread(pairs[:, 0]) - spread(pairs[:, 1])

    pairs = np.column_stack([b[AREA], a[AREA]])
    lower = Number(spread_difference(pairs), *bootstrap_statistic(pairs, spread_difference))
    statements = {key: f"{ours}'s masks have a lower {key} than {theirs}'s" for key in (TOTAL_VARIATION, ENTROPY)}
    below = {key: paired_difference(a[key], b[key]) for key in statements} | {SPREAD: lower}
    shown = below | {SPREAD: negated(lower)}
    statements[SPREAD] = f"The volume of {ours}'s masks varies more than that of {theirs}'s"
    return [
        Claim(statement, PAPER[key], f"{ours} - {theirs}: {text(shown[key], signed=True)}", verdict_below([below[key]]))
        for key, statement in statements.items()
    ]


def text(number: Number, signed: bool = False) -> str:
    """A number with its interval, with digits that suit its magnitude.

    >>> text(Number(2510.2, 2400, 2600)), text(Number(0.0512, 0.05, 0.06), signed=True), text(Number(-63.78, -65, -61))
    ('2,510 [2,400, 2,600]', '+0.051 [+0.050, +0.060]', '-63.8 [-65.0, -61.0]')
    """
    size = max(abs(number.low), abs(number.high))
    form = f"{{:{'+' if signed else ''}{',.0f' if size >= 100 else '.1f' if size >= 10 else '.3f'}}}"
    return "{} [{}, {}]".format(*(form.format(x) for x in (number.value, number.low, number.high)))


STUDY = Experiment(run_statistics, planned_entries)
