"""Does CASM hold more of the evidence than Baseline? On scenes, where it is known; at equal area; over seeds."""

import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.errors import UserError
from casmap.evaluation.evaluate import Row, System, map_photos, measure
from casmap.evaluation.intervals import paired_interval
from casmap.evaluation.table import system_of
from casmap.io.atomic import write_whole
from casmap.tools.pair import train_pair
from casmap.training.recipes import QUICK

PHOTOS, HELD_OUT_PHOTOS = 2000, 500
MEASURES = {"LE": -1, "LE at area": -1, "evidence recall": 1, "evidence precision": 1}  # 1: more is better


def run_evidence(out: Path, seeds: list[int], console: Console) -> dict[str, object]:
    """Train the pair for each seed, measure both, and print the paired difference with its interval."""
    rows: dict[str, list[Row]] = {"CASM": [], "Baseline": []}
    area = QUICK.area or 0.0
    for seed in seeds:
        recipe = QUICK.replace(seed=seed)
        mappers = train_pair(Scenes(photos=PHOTOS, seed=seed, size=recipe.size), out / f"seed-{seed}", recipe, console)
        photos = Scenes(photos=HELD_OUT_PHOTOS, seed=seed + HELD_OUT, size=recipe.size)
        for name, mapper in mappers.items():
            rows[name].append(_measure(name, system_of(mapper, photos), photos))
    result = summarise(rows, seeds, area)
    print_summary(result, console)
    write_whole(out / "evidence.json", json.dumps(result, indent=2) + "\n")
    console.print(f"\nAll numbers: {out / 'evidence.json'}")
    return result


def _measure(name: str, system: System, photos: Scenes) -> Row:
    row = measure(name, map_photos(system, photos, photos.size, "crop"), QUICK.area)
    if "evidence recall" not in row.values:
        raise UserError(f"{name}'s masks cannot be brought to the area {QUICK.area}, so there is nothing to compare.")
    return row


def summarise(rows: dict[str, list[Row]], seeds: list[int], area: float) -> dict[str, object]:
    """Means by seed and over all photos of all seeds, and CASM - Baseline photo by photo."""
    keys = [*MEASURES, "binary area", "area"]
    systems = {
        name: {key: [float(row.values[key].mean()) for row in of_seeds] for key in keys}
        for name, of_seeds in rows.items()
    }
    differences = {}
    for key in MEASURES:
        casm, baseline = (np.concatenate([row.values[key] for row in rows[name]]) for name in ("CASM", "Baseline"))
        differences[key] = [float((casm - baseline).mean()), *paired_interval(casm, baseline)]
    return {"seeds": seeds, "area": area, "systems": systems, "CASM - Baseline": differences}


def print_summary(result: dict[str, object], console: Console) -> None:
    """The table: every seed, and the paired differences."""
    systems, differences = result["systems"], result["CASM - Baseline"]
    assert isinstance(systems, dict)
    assert isinstance(differences, dict)
    table = Table(
        title=f"scenes, seeds {result['seeds']}, evidence at binary area {result['area']}; each seed, then the mean"
    )
    for column in ("", *systems, "CASM - Baseline [95 %]"):
        table.add_column(column, justify="right" if column else "left")
    for key in [*MEASURES, "binary area", "area"]:
        scale = 1 if "area" in key and key not in MEASURES else 100
        digits = 3 if scale == 1 else 1
        cells = []
        for numbers in systems.values():
            each = " ".join(f"{scale * number:.{digits}f}" for number in numbers[key])
            cells.append(f"{each} | {scale * float(np.mean(numbers[key])):.{digits}f}")
        difference = differences.get(key)
        text = "" if difference is None else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * x for x in difference))
        table.add_row(key, *cells, text)
    console.print(table)
