"""All studies in a folder on one page, next to the paper's numbers: which of its conclusions hold here."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.tabular import to_csv
from casmap.paper.outcome import (
    FAILS,
    HOLDS,
    TIE,
    Claim,
    Outcome,
    claims_section,
    found_section,
    further_sections,
    read_outcome,
)
from casmap.tools.page import write_page

STUDIES = (
    "table1", "table2", "table3", "figure1", "figure2", "figure2-classes", "figure3", "statistics", "seeds", "fewshot",
    "length", "evidence", "twins",
)  # fmt: skip
CHANCE = "Intervals are over photos; each row of a table is one training: Seeds shows how much trainings vary."


@dataclass(frozen=True)
class Report:
    """The claims of all studies in a folder, in the studies' order, and the page."""

    claims: list[Claim]
    page: Path

    @property
    def summary(self) -> str:
        """How many conclusions hold."""
        counts = Counter(claim.verdict for claim in self.claims)
        return (
            f"Of {len(self.claims)} of the paper's conclusions {counts[HOLDS]} hold here, {counts[FAILS]} do not, and "
            f"{counts[TIE]} {'is' if counts[TIE] == 1 else 'are'} not settled."
        )


def run_report(folder: Path) -> Report:
    """Read the outcomes of the studies in a folder, and write which of the paper's conclusions hold."""
    found: list[Outcome] = []
    for name in STUDIES:
        places = [where / name.partition("-")[0] / f"{name}.json" for where in (folder, folder.parent)]
        path = next(filter(Path.exists, places), places[0])  # evidence and twins are next to the folder of the others
        found += [read_outcome(path)] if path.exists() else []
    if not found:
        raise UserError(f"There is no finished study in {folder}: run one with --out {folder}.")
    report = Report([claim for outcome in found for claim in outcome.claims], folder / "report.html")
    order = [claim for verdict in (HOLDS, FAILS, TIE) for claim in report.claims if claim.verdict == verdict]
    parts = [
        part
        for outcome in found
        for part in (found_section(outcome, outcome.title, outcome.text), *further_sections(outcome))
    ]
    lead = f"{report.summary} {CHANCE}"
    write_page(report.page, "The paper, checked", lead, [claims_section(order), *parts])
    lines = [f"{claim.verdict}: {claim.statement}. Paper: {claim.paper}. Here: {claim.here}." for claim in order]
    write_whole(folder / "report.csv", to_csv([vars(claim) for claim in report.claims]))
    write_whole(folder / "report.md", "\n".join([report.summary, "", *(f"- {line}" for line in lines)]) + "\n")
    return report
