"""What do minutes of training give? LE and mask IoU after 0, 5, 15, ... minutes, with and without --from-scratch.

    python benchmarks/minutes.py DATA WORK [RUN...]    # train and measure what is missing
    python benchmarks/minutes.py DATA WORK --draw      # print the tables and draw docs/figures/minutes.png

DATA holds pets/ and birds/, each with train/, dev/ and dev_masks/ or dev_boxes.csv. WORK keeps the runs, the values of
each photo, and WORK/minutes.json, from which the script goes on after a stop. A RUN is SET-MINUTES or
SET-MINUTES-scratch, such as six-15-scratch; six: 60 photos of each of six breeds. Without RUN, all runs of RUNS.
Measured on all annotated photos of dev, as extracted, on one thread.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from compare_mappings import measure
from matplotlib.figure import Figure

from casmap import SaliencyMapper
from casmap.data.folders import PhotoFolder
from casmap.evaluation.numbers import Number, mean_of, paired_difference, percent, points
from casmap.io.atomic import write_whole
from casmap.training.shipped_start import STEPS

MINUTES = (5, 15, 20, 30, 60)
SETS = {"six": "360 photos of six breeds", "pets": "2,946 photos of 37 breeds", "birds": "5,000 photos of 200 species"}
RUNS = [f"{name}-{minutes}{kind}" for minutes in MINUTES for name in SETS for kind in ("", "-scratch")]
BREEDS, EACH = 6, 60
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "minutes.png"
OPTIONS = ("size", "algorithm_size", "steps", "second_stage_steps")


def main() -> None:
    """Do the runs that are missing, or draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("runs", nargs="*", default=RUNS)
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    if not given.draw:
        for run in given.runs:
            do(run, given.data, given.work)
    kept = read(given.work)
    print_tables(kept)
    if given.draw:
        draw(kept)


def read(work: Path) -> dict[str, Any]:
    """All runs so far, by name."""
    path = work / "minutes.json"
    return json.loads(path.read_text()) if path.exists() else {}


def do(run: str, data: Path, work: Path) -> None:
    """Train and measure one run, after the shipped mapping on the same photos, unless it is there already."""
    name, minutes, *scratch = run.split("-")
    dev = "birds" if name == "birds" else "pets"
    if f"{dev}-0" not in read(work):
        add(work, f"{dev}-0", evaluate(None, data / dev, work / f"{dev}-0.npz"))
    if run in read(work):
        return
    if not scratch:  # there are never more than STEPS steps: more time than for all of them gives the same run
        for shorter in (f"{name}-{time}" for time in MINUTES if time < float(minutes)):
            known = read(work).get(shorter, {})
            if known.get("options", {}).get("second_stage_steps") == STEPS:
                add(work, run, known | {"same as": shorter})
                return
    trained = train(run, six_breeds(data, work) if name == "six" else data / name / "train", float(minutes), work)
    if "refused" in trained:
        add(work, run, trained)
        return
    measured = evaluate(work / run / "mapping.safetensors", data / dev, work / f"{run}.npz", work / f"{dev}-0.npz")
    add(work, run, trained | measured)


def add(work: Path, run: str, content: dict[str, Any]) -> None:
    """Add a run to minutes.json."""
    write_whole(work / "minutes.json", json.dumps(read(work) | {run: content}, indent=2) + "\n")
    print(run, content, flush=True)


def six_breeds(data: Path, work: Path) -> Path:
    """A folder with the first 60 photos of every sixth breed, made once."""
    folder = work / "six-breeds"
    if not folder.exists():
        unfinished = folder.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        for breed in sorted((data / "pets" / "train").iterdir())[::6][:BREEDS]:
            (unfinished / breed.name).mkdir(parents=True)
            for photo in sorted(breed.iterdir())[:EACH]:
                shutil.copy(photo, unfinished / breed.name)
        unfinished.rename(folder)
    return folder


def train(run: str, photos: Path, minutes: float, work: Path) -> dict[str, Any]:
    """Run `casmap train --minutes`; its verdict, options, estimate, duration and CPU time, in seconds."""
    folder = work / run
    shutil.rmtree(folder, ignore_errors=True)  # an unfinished run has no duration
    command = [sys.executable, "-m", "casmap", "train", os.fspath(photos), "--minutes", f"{minutes:g}"]
    command += ["--threads", "1", "--seed", "0", "--out", os.fspath(folder)]
    command += ["--from-scratch"] * run.endswith("-scratch")
    start = time.monotonic()
    with (work / f"{run}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    seconds, code = time.monotonic() - start, os.waitstatus_to_exitcode(status)
    if code == 2 and "on this machine: set --minutes to more" in (said := (work / f"{run}.log").read_text()):
        return {"minutes": minutes, "refused": said.splitlines()[-1].removeprefix("casmap: ")}
    if code not in (0, 3):  # 3: a failed verdict, which is a result
        raise SystemExit(f"{run} ended with exit code {code}: see {work / f'{run}.log'}")
    summary = json.loads((folder / "summary.json").read_text())
    return {
        "verdict": summary["verdict"], "reasons": summary["reasons"], "minutes": minutes, "seconds": seconds,
        "estimated": summary["estimated seconds"], "cpu": used.ru_utime + used.ru_stime,
        "options": {name: summary["recipe"][name] for name in OPTIONS},
    }  # fmt: skip


def evaluate(mapping: Path | None, data: Path, path: Path, shipped: Path | None = None) -> dict[str, Any]:
    """LE and mask IoU on dev, and their differences from the shipped mapping; the values of each photo go to `path`."""
    masks, boxes = data / "dev_masks", data / "dev_boxes.csv"
    photos = PhotoFolder(data / "dev", **({"masks": masks} if masks.exists() else {"boxes": boxes}))
    errors, ious = measure(SaliencyMapper.load(mapping, threads=1), photos)
    np.savez(path, errors=errors, ious=ious)
    found = {"photos": len(errors), "LE": vars(mean_of(errors))} | ({"IoU": vars(mean_of(ious))} if len(ious) else {})
    if shipped is not None:
        before = np.load(shipped)
        found["LE less shipped"] = vars(paired_difference(errors, before["errors"]))
        if len(ious):
            found["IoU less shipped"] = vars(paired_difference(ious, before["ious"]))
    return found


def runs_of(kept: dict[str, Any], name: str, scratch: bool) -> list[dict[str, Any]]:
    """The runs on a set, the shortest first, without those that are the same as a shorter one."""
    found = [one for run, one in kept.items() if run.startswith(f"{name}-") and run.endswith("-scratch") == scratch]
    return sorted((one for one in found if "seconds" in one and "same as" not in one), key=lambda one: one["minutes"])


def print_tables(kept: dict[str, Any]) -> None:
    """Print a Markdown table of the results, and one of the estimates."""
    print(
        "\n| trained on | start | `--minutes` | took | verdict | LE | mask IoU | LE minus shipped | IoU minus shipped |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for dev in [dev for dev in ("pets", "birds") if f"{dev}-0" in kept]:
        found = kept[f"{dev}-0"]
        what = f"nothing: the shipped mapping, {found['photos']} photos of `{dev}/dev`"
        print(f"| {what} | | | 0 | | {shown(found)} | | |")
        for name, scratch in [(name, scratch) for name in SETS for scratch in (False, True)]:
            for one in runs_of(kept, name, scratch) if (name == "birds") == (dev == "birds") else ():
                differences = (f"{key} less shipped" for key in ("LE", "IoU"))
                less = " | ".join(points(Number(**one[key])) if key in one else "" for key in differences)
                start = "`--from-scratch`" if scratch else "shipped"
                head = f"{SETS[name]} | {start} | {one['minutes']:g} | {one['seconds'] / 60:.1f}"
                print(f"| {head} | {one['verdict']} | {shown(one)} | {less} |")
    print("\n| run | estimate | took | took / estimate | CPU time | CPU time / estimate | steps |")
    print("|---|---|---|---|---|---|---|")
    for run, one in kept.items():
        if "seconds" in one and "same as" not in one:
            estimate, seconds, cpu = (one[key] / 60 for key in ("estimated", "seconds", "cpu"))
            steps = (
                f"{one['options']['steps']} + " * run.endswith("-scratch") + f"{one['options']['second_stage_steps']}"
            )
            times = f"{estimate:.1f} | {seconds:.1f} | {seconds / estimate:.2f} | {cpu:.1f} | {cpu / estimate:.2f}"
            print(f"| {run} | {times} | {steps} |")
    for run, one in kept.items():
        if "same as" in one or "refused" in one:
            print(f"{run}: {one.get('refused') or 'the same run as ' + one['same as']}")


def shown(found: dict[str, Any]) -> str:
    """LE and mask IoU as two cells of a table."""
    return " | ".join(percent(Number(**found[key])) if key in found else "" for key in ("LE", "IoU"))


def draw(kept: dict[str, Any]) -> None:
    """Draw LE and mask IoU over the minutes taken: a column for each set, 0 minutes for the shipped mapping."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    panels = figure.subplots(2, len(SETS), sharex=True, sharey="row")
    for column, name in enumerate(SETS):
        shipped = kept.get("birds-0" if name == "birds" else "pets-0")
        for row, (key, title) in enumerate((("LE", "localization error, percent ↓"), ("IoU", "mask IoU, percent ↑"))):
            axes = panels[row, column]
            if shipped is None or key not in shipped:
                axes.set_axis_off()
                continue
            for scratch, colour in ((False, "#2a78d6"), (True, "#d9730d")):
                runs = ([] if scratch else [shipped | {"seconds": 0}]) + runs_of(kept, name, scratch)
                minutes = [one["seconds"] / 60 for one in runs]
                values, low, high = (np.array([100 * one[key][part] for one in runs]) for part in vars(Number(0, 0, 0)))
                label = "--from-scratch" if scratch else "from the shipped mapping"
                axes.errorbar(minutes, values, [values - low, high - values], marker="o", color=colour, label=label)
            axes.grid(alpha=0.3)
            axes.set_ylabel(title)
            axes.tick_params(labelbottom=True, labelleft=True)
            axes.set_title(SETS[name] if row == 0 else "")
            axes.set_xlabel("minutes of training, 0: the shipped mapping")
    panels[0, 1].legend(title="start of the training")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    main()
