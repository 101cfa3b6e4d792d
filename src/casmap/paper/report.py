"""All studies in a folder on one page, beside the paper's numbers: which of its conclusions hold here."""

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.tabular import to_csv
from casmap.paper.claims import FAILS, HOLDS, TIE, Claim
from casmap.paper.outcome import Outcome, claims_section, found_section, read_outcome
from casmap.tools.page import write_page

STUDIES = (
    "table1", "table2", "table3", "figure1", "figure2", "figure2-classes", "figure3", "statistics", "seeds", "fewshot",
)  # fmt: skip
CHANCE = "Intervals are over photos, each row of a table one training: how much is chance of training, Seeds tells."


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
        return read_outcome(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged: run the study again, which takes little when its parts are there."
        ) from error


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
