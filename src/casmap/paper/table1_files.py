"""Table 1 for people and programs: on the terminal, as CSV, Markdown and JSON, and as a page with maps side by side."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from casmap.evaluation.evaluate import Number
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.atomic import write_whole
from casmap.io.images import Image
from casmap.paper.crops import Crops
from casmap.paper.table1 import ALPHA_ONE, OWN_ALPHA, OWN_RULE, Line, Table1, difference, verdict
from casmap.tools.page import Section, data_address, write_page

MEASURES = {
    f"LE, {ALPHA_ONE}": "LE ↓",
    f"LE, {OWN_RULE}": "LE, authors' rule ↓",
    f"LE, {OWN_ALPHA}": "LE, own alpha ↓",
    "OM": "OM ↓",
    "F1": "F1 ↑",
    "PxAP": "PxAP ↑",
    "mask IoU": "mask IoU ↑",
}
SUMMARY = {f"LE, {ALPHA_ONE}": "LE ↓", f"LE, {OWN_RULE}": "rule ↓", "OM": "OM ↓", "F1": "F1 ↑", "PxAP": "PxAP ↑"}
SIDE = 120  # of a picture on the page
WIDE = 160  # columns of a terminal for all of the table


def write_table1(table: Table1, crops: Crops, out: Path, console: Console) -> None:
    """Print the table, and write table1.csv, .md, .json and .html into `out`."""
    narrow = console.width < WIDE
    head, rows = summary(table) if narrow else cells(table)
    printed = Table(title=_title(table), show_lines=not narrow, box=box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD)
    for place, title in enumerate(head):
        printed.add_column(title, justify="right" if place else "left")
    for row in rows:
        printed.add_row(*row)
    console.print(printed)
    console.print("\n".join(notes(table)), soft_wrap=True)
    if narrow:
        console.print(
            f"rule: LE by the authors' rule. With all columns and intervals: {out / 'table1.md'}", soft_wrap=True
        )
    write_whole(out / "table1.csv", to_csv(table))
    write_whole(out / "table1.md", to_markdown(table))
    write_whole(out / "table1.json", to_json(table))
    write_table1_page(out / "table1.html", table, crops)
    console.print(f"Page: {out / 'table1.html'}", soft_wrap=True)


def cells(table: Table1) -> tuple[list[str], list[list[str]]]:
    """Head and rows, ranked, as they are printed."""
    ours = table.lines[0]
    measures = [key for key in MEASURES if any(key in line.numbers for line in table.lines)]
    first, *others = measures
    head = ["", "is told", MEASURES[first], f"{ours.name} - it", *(MEASURES[key] for key in others), "ms", "photos"]
    rows = [
        [
            line.method + (f"\n({line.paper})" if line.paper else ""),
            line.told,
            _percent(line.numbers[first]),
            "" if line is ours else _apart(ours, line),
            *(_percent(line.numbers.get(key)) for key in others),
            _milliseconds(line.milliseconds),
            str(len(line.chosen)),
        ]
        for line in table.ranked
    ]
    return head, rows


def summary(table: Table1) -> tuple[list[str], list[list[str]]]:
    """Head and rows for a narrow terminal: no intervals, and what matters most."""
    ours = table.lines[0]
    measures = [key for key in SUMMARY if any(key in line.numbers for line in table.lines)]
    head = ["", *(SUMMARY[key] for key in measures), "ms", "it is"]
    rows = [
        [
            line.name.replace(", the ", ", "),
            *(_percent(line.numbers.get(key)).split("\n")[0] for key in measures),
            _milliseconds(line.milliseconds),
            "" if line is ours else verdict(difference(ours, line)),
        ]
        for line in table.ranked
    ]
    return head, rows


def notes(table: Table1) -> list[str]:
    """What the columns mean."""
    ours, rules = table.lines[0], dict.fromkeys(line.rule for line in table.lines if line.rule is not None)
    whose = {rule: ", ".join(dict.fromkeys(line.method for line in table.lines if line.rule == rule)) for rule in rules}
    told = "; ".join(f"{names}: {rule}" for rule, names in whose.items())
    factor = ours.milliseconds / table.bare
    return [
        "LE: the box around the largest component of m >= alpha mean m, alpha = 1. Own alpha: the best of 0.1, 0.2, "
        "... 3.0 on one half of the photos, used on the other.",
        *([f"Authors' rules: {told}."] if told else []),
        f"{ours.name} - it: LE of {ours.name} at alpha 1 minus that of the row in the way that is best for it on "
        "these photos, paired: below 0 the row is worse.",
        "ms: for a photo, the median of rounds in one run; of those on few photos, when their maps were made.",
        f"The classifier in {ours.name} alone, in the same engine, takes {_milliseconds(table.bare)} ms, {ours.name} "
        f"{factor:.2f} times that.",
    ]


def to_csv(table: Table1) -> str:
    """One line for each row, numbers as shares, with their intervals."""
    text = io.StringIO()
    keys = [key for key in (*MEASURES, "area") if any(key in line.numbers for line in table.lines)]
    writer = csv.writer(text, lineterminator="\n")
    ends = ("", " low", " high")
    writer.writerow(
        ["row", "paper", "is told", *(key + end for key in keys for end in ends), "milliseconds", "photos", "rule",
         "its best way", "LE difference", "LE difference low", "LE difference high", "it is"]
    )  # fmt: skip
    for line in table.ranked:
        numbers = [line.numbers.get(key) for key in keys]
        apart = None if line is table.lines[0] else difference(table.lines[0], line)
        word = "" if apart is None else verdict(apart)
        writer.writerow(
            [line.name, line.paper, line.told, *(x for number in numbers for x in _three(number)),
             f"{line.milliseconds:.3f}", len(line.chosen), line.rule or "", line.strongest, *_three(apart), word]
        )  # fmt: skip
    return text.getvalue()


def to_markdown(table: Table1) -> str:
    """The table as it can be put into a document."""
    head, rows = cells(table)
    lines = [f"{_title(table)}", "", _row(head), _row(["---"] * len(head))]
    lines += [_row([cell.replace("\n", " ") for cell in row]) for row in rows]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes(table))])


def to_json(table: Table1) -> str:
    """All numbers with their intervals."""
    ours = table.lines[: table.mappings]
    content = {
        "classifier alone, milliseconds": table.bare,
        "rows": {
            line.name: {
                "paper": line.paper,
                "is told": line.told,
                "photos": len(line.chosen),
                "milliseconds": line.milliseconds,
                "own alphas": line.alphas,
                "authors' rule": line.rule,
                "its best way": line.strongest,
                **{key: asdict(number) for key, number in line.numbers.items()},
            }
            for line in table.ranked
        },
        "paired LE differences": {
            mine.name: {line.name: asdict(difference(mine, line)) for line in table.ranked if line is not mine}
            for mine in ours
        },
    }
    return json.dumps(content, indent=2) + "\n"


def write_table1_page(path: Path, table: Table1, crops: Crops) -> None:
    """The table, and for the same photos the map of every row, side by side."""
    head, rows = cells(table)
    sections = [Section("Table 1", "\n".join(notes(table)), head, rows)]
    if table.shown:
        photos = [crops.pictures[i] for i in table.shown]
        pictures = [("the photos", data_address(_strip(photos)))]
        for line in table.ranked:
            found = [_shown(photo, mask) for photo, mask in zip(photos, line.shown, strict=True)]
            title = f"{line.name}: LE {_percent(line.numbers[f'LE, {ALPHA_ONE}'])}"
            pictures.append((title, data_address(_strip(found))))
        words = (
            "Every row's map over the same photos, each so bright that its highest hundredth is full, and its box at "
            "alpha = 1; the rows as in the table."
        )
        sections.append(Section("The same photos", words, pictures=pictures))
    write_page(path, "Table 1", _title(table), sections)


def _title(table: Table1) -> str:
    return f"{max(len(line.chosen) for line in table.lines)} photos, central crop; 95 % bootstrap intervals"


def _shown(photo: Image, mask: npt.NDArray[np.floating]) -> Image:
    """A photo with a map and its box, also where most of the map is next to nothing."""
    brightest = max(float(np.quantile(mask, 0.99)), float(mask.mean()), 1e-9)
    brighter = np.minimum(mask / brightest, 1).astype(np.float32)
    return SaliencyMap(photo, brighter).overlay(float(mask.mean() / brightest / max(brighter.mean(), 1e-9)))


def _strip(images: list[Image]) -> Image:
    """Pictures in a row."""
    small = [cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for image in images]
    return np.hstack([np.pad(image, ((0, 0), (0, 4), (0, 0)), constant_values=255) for image in small])


def _apart(ours: Line, theirs: Line) -> str:
    apart = difference(ours, theirs)
    value, low, high = (100 * x for x in (apart.value, apart.low, apart.high))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]\nit is {verdict(apart)}".replace("it is tie", "a tie")


def _percent(number: Number | None) -> str:
    if number is None:
        return "-"
    value, low, high = (100 * x for x in (number.value, number.low, number.high))
    return f"{value:.1f}\n[{low:.1f}, {high:.1f}]"


def _milliseconds(time: float) -> str:
    return f"{time:,.0f}" if time >= 100 else f"{time:.1f}"


def _three(number: Number | None) -> list[str]:
    return ["", "", ""] if number is None else [f"{x:.6f}" for x in (number.value, number.low, number.high)]


def _row(parts: list[str]) -> str:
    return f"| {' | '.join(part.replace('|', '&#124;') for part in parts)} |"
