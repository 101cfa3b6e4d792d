"""Table 1 as a study: rows for wide and narrow terminals, all numbers, claims, and maps side by side."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.sources import open_photos
from casmap.evaluation.box_fit import ALPHA_ONE
from casmap.evaluation.evaluate import Number
from casmap.evaluation.fidelity import MOST, fidelity_note
from casmap.evaluation.numbers import columns, negated, percent, points
from casmap.evaluation.wsol_protocol import V2, WSOL_PROTOCOL
from casmap.inference.components import PAPER as ALPHA_1
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.images import Image, encode_png
from casmap.io.names import file_name
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.table1_entries import PAPER
from casmap.paper.table1_further import FIELD_NOTE, further, size_columns
from casmap.paper.table1_rows import (
    OWN_ALPHA,
    OWN_RULE,
    Line,
    Table1,
    difference,
    find_baselines,
    measure_table1,
)  # fmt: skip
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import open_judge

MEASURES = {
    f"LE, {ALPHA_ONE}": "LE ↓", f"LE, {OWN_RULE}": "LE, authors' rule ↓", f"LE, {OWN_ALPHA}": "LE, own alpha ↓",
    "OM": "OM ↓", "F1": "F1 ↑", "mask IoU": "mask IoU ↑",
}  # fmt: skip
SUMMARY = {f"LE, {ALPHA_ONE}": "LE ↓", f"LE, {OWN_RULE}": "rule ↓", "OM": "OM ↓", "F1": "F1 ↑", V2: f"{V2} ↑"}
SIDE = 120  # of an image on the page, in pixels


def run_table1(
    data: str, *, mappings: Sequence[Path], classifier: str, out: Path, boxes: Path | None = None,
    masks: Path | None = None, split: str | None = None, size: int = 224, unseen: bool = False,
    train: str | None = None, weights: Path | None = None, only: Sequence[str] = (), few: int = 100,
    fidelity: str | None = None, reporter: Reporter = SILENT,
) -> Outcome:  # fmt: skip
    """Compare mappings with baselines on photos named as on the command line; see `measure_table1`."""
    find_baselines(only)  # imports the baselines, so that a missing extra is reported before anything is read
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, split=split)
    return table1(measure_table1(
        photos, mappings=mappings, classifier=classifier, out=out, size=size, unseen=unseen, only=only, few=few,
        train_photos=None if train is None else open_photos(train), weights=weights,
        judge=None if fidelity is None else open_judge(fidelity), reporter=reporter,
    ))  # fmt: skip


def table1(table: Table1) -> Outcome:
    """All results, ranked; claims are about rows that are given the true class, where a class is given."""
    figures, claims = dict(_figures(table)), list(_claims(table))
    head, rows = _rows(table)
    text, title = notes(table), "Table 1: comparison with other methods"
    return Outcome(
        "table1", title, text, head, rows, records(table), figures, claims, _summary(table), tuple(further(table))
    )


def _rows(table: Table1) -> tuple[list[str], list[list[Cell]]]:
    """Head and rows of the printed table."""
    ours = table.lines[0]
    words = {"worse": "row is worse", "tie": "tie", "better": "row is better"}
    first, *others = _measured(table, MEASURES)
    head = ["", "given", MEASURES[first], f"{ours.name} - row", *(MEASURES[key] for key in others)]

    rows = [
        [
            line.entry.method + (f"\n({line.entry.paper})" if line.entry.paper else ""),
            line.entry.given,
            _percent(line.numbers[first]),
            "" if line is ours else f"{points(d := difference(ours, line))}\n{words[verdict(d)]}",
            *(_percent(line.numbers.get(key)) for key in others),
            _milliseconds(line.milliseconds),
            str(len(line.entry.chosen)),
            "-" if (paper := _paper(table, line)) is None else f"{paper:.1f}",
        ]
        for line in table.ranked
    ]
    return [*head, "ms", "photos", "paper's LE"], [[Cell(text) for text in row] for row in rows]


def _summary(table: Table1) -> tuple[list[str], list[list[Cell]]]:
    """Head and rows for a narrow terminal: the most important columns, without intervals."""
    ours, measures = table.lines[0], _measured(table, SUMMARY)
    rows = [
        [
            line.name.replace(", the ", ", "),
            *(_percent(line.numbers.get(key)).partition("\n")[0] for key in measures),
            _milliseconds(line.milliseconds),
            "" if line is ours else verdict(difference(ours, line)),
        ]
        for line in table.ranked
    ]
    head = ["", *(SUMMARY[key] for key in measures), "ms", "row is"]
    return head, [[Cell(text) for text in row] for row in rows]


def notes(table: Table1) -> str:
    """How the rows were measured, and what the columns mean."""
    ours, photos = table.lines[0], max(len(line.entry.chosen) for line in table.lines)
    alone = table.classifier_milliseconds
    whose: dict[str, list[str]] = {}
    for entry in (line.entry for line in table.lines if line.entry.rule is not None):
        assert entry.rule is not None
        whose.setdefault(entry.rule.description, []).append(entry.method)
    rules = "; ".join(f"{', '.join(dict.fromkeys(methods))}: {rule}" for rule, methods in whose.items())
    lines = [
        f"{photos} photos, central crop; 95 % bootstrap intervals.",
        "LE: the box around the largest component of m >= alpha mean m, alpha = 1. Own alpha: the best of 0.1, 0.2, "
        "... 3.0 on one half of the photos, used on the other half.",
        f"Authors' rules: {rules}." if rules else "",
        f"given: the input besides the photo. {ours.name} - row: LE of {ours.name} at alpha 1 minus the lowest LE of "
        "the row on these photos, paired: below 0 the row is worse.",
        "ms: time for a photo, the median of several rounds in one run; for methods measured on few photos, the time "
        "when their maps were computed.",
        f"The classifier in {ours.name} alone, in the same runtime, takes {_milliseconds(alone)} ms, {ours.name} "
        f"{ours.milliseconds / alone:.2f} times that.",
        FIELD_NOTE,
        f"Choe et al.'s protocol: {WSOL_PROTOCOL}",
        f"Fidelity to {table.judge}, on at most {MOST} photos: {fidelity_note(ALPHA_1)}" if table.judge else "",
        "Images: every row's map over the same photos, each scaled so that its brightest hundredth saturates, with its "
        "box at alpha = 1.",
    ]
    return "\n".join(filter(None, lines))


def records(table: Table1) -> list[dict[str, Any]]:
    """All numbers of each row, shares with their intervals, and the difference of every mapping from it."""
    found = []
    for line in table.ranked:
        record: dict[str, Any] = {"row": line.name, "paper": line.entry.paper, "given": line.entry.given}
        for key, number in line.numbers.items():
            record |= columns(key, number)
        record |= size_columns(line)
        record |= {
            "milliseconds": line.milliseconds, "photos": len(line.entry.chosen), "own alphas": list(line.alphas),
            "rule": None if line.entry.rule is None else line.entry.rule.description, "best box rule": line.strongest,
            "paper LE": _paper(table, line),
        }  # fmt: skip
        for place, mine in enumerate(table.lines[: table.mappings]):
            if line is not mine:
                record |= columns(f"LE difference of {mine.name}" if place else "LE difference", difference(mine, line))
        if line is table.lines[0]:
            record["classifier alone, milliseconds"] = table.classifier_milliseconds
        else:
            record["verdict"] = verdict(difference(table.lines[0], line))
        found.append(record)
    return found


def _claims(table: Table1) -> Iterator[Claim]:
    """CASM compared with each row of the paper: higher or lower LE than in the paper's table."""
    casm, ours = _casm(table), PAPER["CASM"]
    for line in table.ranked:
        paper = _paper(table, line)
        if paper is not None and line is not casm and line.entry.given != "the predicted class":
            higher, gap = ours < paper, difference(casm, line)
            yield Claim(
                f"{line.entry.method} has a {'higher' if higher else 'lower'} LE than CASM",
                f"{paper} and {ours}",
                f"CASM - row {points(gap)}",
                verdict_below([gap if higher else negated(gap)]),
            )


def _casm(table: Table1) -> Line:
    """The mapping that is compared with the paper's CASM: the one of that name, or the first."""
    mappings = table.lines[: table.mappings]
    return next((line for line in mappings if line.name == "CASM"), mappings[0])


def _paper(table: Table1, line: Line) -> float | None:
    """The LE of the paper's table, in percent."""
    return PAPER["CASM"] if line is _casm(table) else line.entry.paper_le


def verdict(gap: Number) -> str:
    """A difference of LE in one word.

    >>> verdict(Number(-0.1, -0.2, -0.05)), verdict(Number(0.0, -0.1, 0.1)), verdict(Number(0.1, 0.05, 0.2))
    ('worse', 'tie', 'better')
    """
    return "worse" if gap.high < 0 else "better" if gap.low > 0 else "tie"


def _figures(table: Table1) -> Iterator[tuple[str, bytes]]:
    """The photos side by side, and each row's maps over them, by the endings of the files' names."""
    if photos := [table.crops.images[i] for i in table.shown]:
        yield "-the photos", _strip(photos)
        for line in table.ranked:
            yield f"-maps of {file_name(line.name)}", _strip(list(map(_shown, photos, line.shown)))


def _shown(photo: Image, mask: npt.NDArray[np.floating]) -> Image:
    """A photo with a map and its box, visible even if most of the map is close to 0."""
    brightest = max(float(np.quantile(mask, 0.99)), float(mask.mean()), 1e-9)
    brighter = np.minimum(mask / brightest, 1).astype(np.float32)
    return SaliencyMap(photo, brighter).overlay(float(mask.mean() / brightest / max(brighter.mean(), 1e-9)))


def _strip(images: list[Image]) -> bytes:
    """Images side by side, as a PNG."""
    small = [cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for image in images]
    return encode_png(np.hstack([np.pad(image, ((0, 0), (0, 4), (0, 0)), constant_values=255) for image in small]))


def _measured(table: Table1, titles: dict[str, str]) -> list[str]:
    return [key for key in titles if any(key in line.numbers for line in table.lines)]


def _percent(number: Number | None) -> str:
    return "-" if number is None else percent(number).replace(" ", "\n", 1)


def _milliseconds(time: float) -> str:
    return f"{time:,.0f}" if time >= 100 else f"{time:.1f}"
