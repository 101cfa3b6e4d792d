"""Do CASM's masks cover more of the evidence than Baseline's? On scenes, where it is known, at equal area."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.errors import UserError
from casmap.evaluation.evaluate import map_photos, measure_masks
from casmap.evaluation.numbers import columns, negated, paired_difference, points
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.study import Study
from casmap.reporting import SILENT, Reporter
from casmap.tools.demo import train_pair
from casmap.training.recipes import QUICK

PHOTOS, HELD_OUT_PHOTOS = 2000, 500
MEASURES = ("LE", "LE at area", "evidence recall", "evidence precision")  # shares
AREAS = ("binary area", "area")
SYSTEMS = ("CASM", "Baseline")
APART = "CASM - Baseline"

Values = dict[str, list[float]]  # for each measure, the value of each photo


def run_evidence(*, out: Path, seeds: Sequence[int] = (1, 2, 3), reporter: Reporter = SILENT) -> Outcome:
    """Train CASM and Baseline for each seed, and measure both; seeds with saved results are not repeated."""
    options = {"area": QUICK.area, "size": QUICK.size, "steps": QUICK.steps, "photos": PHOTOS}
    study = Study(out, options | {"photos to measure on": HELD_OUT_PHOTOS})
    found = [study.part(f"seed-{seed}", partial(measured, seed, out / f"seed-{seed}", reporter)) for seed in seeds]
    return evidence({name: [of[name] for of in found] for name in SYSTEMS}, seeds)


def measured(seed: int, out: Path, reporter: Reporter) -> dict[str, Values]:
    """CASM and Baseline, trained and measured on the scenes of one seed."""
    recipe = QUICK.replace(seed=seed)
    scenes = Scenes(photos=PHOTOS, seed=seed, size=recipe.size)
    held_out = Scenes(photos=HELD_OUT_PHOTOS, seed=seed + HELD_OUT, size=recipe.size)
    mappers = train_pair(scenes, recipe, out=out, reporter=reporter)
    return {name: measure(name, mapper, held_out) for name, mapper in mappers.items()}


def measure(name: str, mapper: SaliencyMapper, photos: Scenes) -> Values:
    """All measures for each photo."""
    row = measure_masks(name, map_photos(system_of(mapper, photos), photos, photos.size, "crop"), QUICK.area)
    if "evidence recall" not in row.values:
        raise UserError(f"{name}'s masks cannot reach the area {QUICK.area}, so they cannot be compared at equal area.")
    return {key: row.values[key].tolist() for key in (*MEASURES, *AREAS)}


def evidence(values: dict[str, list[Values]], seeds: Sequence[int]) -> Outcome:
    """Means for each seed and over all photos of all seeds, and the paired difference CASM - Baseline."""
    differences = {}
    for key in MEASURES:
        first, second = (np.concatenate([of[key] for of in values[name]]) for name in SYSTEMS)
        differences[key] = paired_difference(first, second)
    rows, records = [], [dict[str, Any](measure="requested area", value=QUICK.area)]
    for key in (*MEASURES, *AREAS):
        scale, digits = (100, 1) if key in MEASURES else (1, 3)
        cells = []
        for name, of_seeds in values.items():
            means = [float(np.mean(of[key])) for of in of_seeds]
            each = " ".join(f"{scale * mean:.{digits}f}" for mean in means)
            cells.append(Cell(f"{each} | {scale * float(np.mean(means)):.{digits}f}"))
            records += [
                {"measure": key, "of": name, "seed": seed, "value": mean}
                for seed, mean in zip(seeds, means, strict=True)
            ]
        if key in differences:
            records.append({"measure": key, "of": APART, **columns("value", differences[key])})
        rows.append([Cell(key), *cells, Cell(points(differences[key]) if key in differences else "")])
    more = differences["evidence recall"]
    claim = Claim(
        "CASM's masks cover more of the evidence than Baseline's, at equal area", "in words, without numbers",
        f"evidence recall, {APART}: {points(more)}", verdict_below([negated(more)]),
    )  # fmt: skip
    return Outcome(
        "evidence",
        f"Evidence: scenes, seeds {list(seeds)}, at binary area {QUICK.area}; each seed, then the mean",
        f"{PHOTOS} scenes for training and {HELD_OUT_PHOTOS} for measuring per seed; their evidence is known. Both "
        f"mappings start from one f(0); one threshold for all photos, so that binary masks cover {QUICK.area} of them "
        "on average. Shares in percent; paired differences with 95 % intervals over the photos of all seeds.",
        ["", *values, f"{APART} [95 %]"], rows, records, claims=[claim],
    )  # fmt: skip
