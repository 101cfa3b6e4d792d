"""All studies in a folder on one page, beside the paper's numbers: which of its conclusions hold here."""

import json
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from casmap.errors import UserError
from casmap.evaluation.evaluate import Number
from casmap.evaluation.numbers import points, turned
from casmap.io.atomic import write_whole
from casmap.io.tabular import to_csv
from casmap.paper.claims import FAILS, HOLDS, TIE, Claim, verdict_below
from casmap.paper.outcome import Cell, Outcome, claims_section, found_section, read_outcome
from casmap.tools.page import write_page

STUDIES = (
    "table1", "table2", "table3", "figure1", "figure2", "figure2-classes", "figure3", "statistics", "seeds", "fewshot",
)  # fmt: skip
CHANCE = "Intervals are over photos, each row of a table one training: how much is chance of training, Seeds tells."
PAPER_TABLE1 = {
    "LRP": 57.8, "occlusion": 48.6, "deconvnet": 48.6, "CAM": 48.1, "Grad-CAM": 47.5, "meaningful perturbation": 43.1,
    "DeSaliNet": 42.0, "gradient": 41.7, "feedback": 38.8, "excitation backprop": 38.7,
    "guided feature inversion": 38.2, "real-time saliency": 36.7, "adversarial localization": 43.5, "Baseline": 53.5,
    "CASM": 36.1, "box regression": 34.3,
}  # fmt: skip


def run_report(folder: Path, console: Console) -> list[Claim]:
    """Read what studies have left in a folder, print and write which of the paper's conclusions hold."""
    found = [outcome for name in STUDIES if (outcome := open_study(folder, name)) is not None]
    if not found:
        raise UserError(f"There is no finished study in {folder}: run some, with --out {folder}.")
    claims = [claim for outcome in found for claim in outcome.claims]
    write_report(folder, found, claims)
    table = Table(title="the paper's conclusions", show_lines=True)
    for title in ("", "in the paper", "here", ""):
        table.add_column(title)
    for claim in claims:
        table.add_row(claim.says, claim.paper, claim.here, claim.verdict)
    console.print(table)
    console.print(f"{summary(claims)}\nPage: {folder / 'report.html'}", soft_wrap=True)
    return claims


def open_study(folder: Path, name: str) -> Outcome | None:
    """A study's findings, or None where there is none; a damaged file is named."""
    path = folder / name.partition("-")[0] / f"{name}.json"
    if not path.exists():
        return None
    try:
        return read_table1(path) if name == "table1" else read_outcome(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged: run the study again, which takes little when its parts are there."
        ) from error


def read_table1(path: Path) -> Outcome:
    """Table 1, as a study of its own keeps it: LE of each row beside the paper's, and who is before whom."""
    content = json.loads(path.read_text())
    differences = content["paired LE differences"]
    ours = "CASM" if "CASM" in differences else next(iter(differences), "")
    rows, records, claims = [], [], []
    for name, row in content["rows"].items():
        method = name.partition(",")[0]
        paper = PAPER_TABLE1.get("CASM" if name == ours else method)
        le = row[f"LE, {row['its best way']}"]["value"]
        rows.append([Cell(name), Cell(f"{100 * le:.1f}"), Cell("-" if paper is None else f"{paper:.1f}")])
        records.append({"row": name, "LE": le, "paper LE": paper})
        if paper is not None and name in differences.get(ours, {}) and not name.endswith("the predicted class"):
            claims.append(_against(method, paper, Number(**differences[ours][name])))
    return Outcome(
        "table1", "Table 1: beside other methods",
        "LE in percent, each row in the way that is best for it; claims are about rows told the true class, where a "
        "class is told. The whole table: table1/table1.html",
        ["", "LE ↓", "in the paper"], rows, records, {}, claims,
    )  # fmt: skip


def _against(name: str, paper: float, difference: Number) -> Claim:
    """CASM beside a row: the paper has it worse, or better, and here it may be neither. difference: CASM - it."""
    ours = PAPER_TABLE1["CASM"]
    higher = ours < paper
    return Claim(
        f"{name} has a {'higher' if higher else 'lower'} LE than CASM",
        f"{paper} and {ours}",
        f"CASM - it {points(difference)}",
        verdict_below([difference if higher else turned(difference)]),
    )


def summary(claims: list[Claim]) -> str:
    """How many of each.

    >>> summary([Claim("a", "", "", HOLDS), Claim("b", "", "", TIE), Claim("c", "", "", HOLDS)])
    "Of 3 of the paper's conclusions 2 hold here, 0 do not, and 1 cannot be settled."
    """
    counts = Counter(claim.verdict for claim in claims)
    return (
        f"Of {len(claims)} of the paper's conclusions {counts[HOLDS]} hold here, {counts[FAILS]} do not, and "
        f"{counts[TIE]} cannot be settled."
    )


def write_report(folder: Path, found: list[Outcome], claims: list[Claim]) -> None:
    """report.html, report.csv and report.md."""
    order = [claim for verdict in (HOLDS, FAILS, TIE) for claim in claims if claim.verdict == verdict]
    parts = [found_section(outcome, outcome.title, outcome.text) for outcome in found]
    lead = f"{summary(claims)} {CHANCE}"
    write_page(folder / "report.html", "The paper, checked", lead, [claims_section(order), *parts])
    lines = [f"{claim.verdict}: {claim.says}. Paper: {claim.paper}. Here: {claim.here}." for claim in order]
    write_whole(folder / "report.csv", to_csv([vars(claim) for claim in claims]))
    write_whole(folder / "report.md", "\n".join([summary(claims), "", *(f"- {line}" for line in lines)]) + "\n")
