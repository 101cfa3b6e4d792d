"""What a study has found: rows, records, pictures and claims; as CSV, Markdown, JSON and one page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from casmap.evaluation.evaluate import Number
from casmap.io.atomic import write_whole
from casmap.io.tabular import to_csv
from casmap.tools.page import Section, png_address, write_page

HOLDS, FAILS, TIE = "holds", "does not hold", "not settled"


class Cell(str):
    """The text of a cell, and whether it is the best of its column, or about classes never seen in training.

    >>> Cell("36.1", best=True).markdown, Cell("46.5", unseen=True).markdown, Cell("3", True, True).markdown
    ('**36.1**', '*46.5*', '***3***')
    """

    best: bool
    unseen: bool

    def __new__(cls, text: str, best: bool = False, unseen: bool = False) -> "Cell":
        """A text and what is special about it."""
        cell = super().__new__(cls, text)
        cell.best, cell.unseen = best, unseen
        return cell

    @property
    def markdown(self) -> str:
        """The best are bold, the unseen in italics, as in the paper."""
        stars = "*" * (2 * self.best + self.unseen)
        return f"{stars}{self}{stars}"


@dataclass(frozen=True)
class Claim:
    """says: the paper's conclusion. paper, here: its numbers and ours. verdict: holds, does not hold, not settled."""

    says: str
    paper: str
    here: str
    verdict: str


def verdict_below(differences: Sequence[Number]) -> str:
    """Whether all differences are below 0: it fails if one is above, as far as its interval can tell.

    >>> below, around, above = Number(-2, -3, -1), Number(0, -1, 1), Number(2, 1, 3)
    >>> verdict_below([below, below]), verdict_below([below, around]), verdict_below([below, above])
    ('holds', 'not settled', 'does not hold')
    """
    if any(difference.low > 0 for difference in differences):
        return FAILS
    return HOLDS if all(difference.high < 0 for difference in differences) else TIE


@dataclass(frozen=True)
class Outcome:
    """The findings of a study.

    name: of the study and its files. text: how it was measured. head, rows: the table as people read it. records: every
    number, a dictionary for each line of the CSV. figures: PNG files by the ends of their names. claims: the paper's.
    summary: head and rows for a narrow terminal, where the whole table is too wide for one; it is in no file.
    """

    name: str
    title: str
    text: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    records: Sequence[Mapping[str, Any]]
    figures: Mapping[str, bytes] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    summary: tuple[Sequence[str], Sequence[Sequence[Cell]]] | None = None


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write NAME.csv, .md, .html, .json and its pictures, the JSON last: with it, all is there. Returns the page."""
    pictures = {f"{outcome.name}{ending}.png": picture for ending, picture in outcome.figures.items()}
    for file, picture in pictures.items():
        write_whole(folder / file, picture)
    write_whole(folder / f"{outcome.name}.csv", to_csv(outcome.records))
    write_whole(folder / f"{outcome.name}.md", to_markdown(outcome))
    sections = [claims_section(outcome.claims)] if outcome.claims else []
    sections.append(found_section(outcome, "What was found"))
    page = folder / f"{outcome.name}.html"
    write_page(page, outcome.title, outcome.text, sections)
    content = {
        "name": outcome.name, "title": outcome.title, "text": outcome.text, "head": list(outcome.head),
        "rows": [[{"text": cell, "best": cell.best, "unseen": cell.unseen} for cell in row] for row in outcome.rows],
        "records": [dict(record) for record in outcome.records], "figures": list(pictures),
        "claims": [asdict(claim) for claim in outcome.claims],
    }  # fmt: skip
    write_whole(folder / f"{outcome.name}.json", json.dumps(content, indent=2) + "\n")
    return page


def read_outcome(path: Path) -> Outcome:
    """What was written, from its JSON and the pictures beside it."""
    content = json.loads(path.read_text())
    rows = [[Cell(cell["text"], cell["best"], cell["unseen"]) for cell in row] for row in content["rows"]]
    ends = [file.removeprefix(content["name"]).removesuffix(".png") for file in content["figures"]]
    figures = {end: (path.parent / file).read_bytes() for end, file in zip(ends, content["figures"], strict=True)}
    claims = [Claim(**claim) for claim in content["claims"]]
    name, title, text, head, records = (content[key] for key in ("name", "title", "text", "head", "records"))
    return Outcome(name, title, text, head, rows, records, figures, claims)


def found_section(outcome: Outcome, title: str, text: str = "") -> Section:
    """Its table and its pictures; of a figure the pictures first."""
    figure = outcome.name.startswith("figure")
    pictures = [(end.strip("-") or outcome.title, png_address(png)) for end, png in outcome.figures.items()]
    return Section(title, text, outcome.head, outcome.rows, pictures=pictures, pictures_first=figure)


def claims_section(claims: Sequence[Claim]) -> Section:
    """The paper's conclusions beside what is so here."""
    rows = [(claim.says, claim.verdict, claim.here, claim.paper) for claim in claims]
    return Section("The paper's conclusions", head=("", "", "here", "in the paper"), rows=rows, words=True)


def to_markdown(outcome: Outcome) -> str:
    """Title, table, and the paper's conclusions, each as a sentence."""
    lines = [f"# {outcome.title}", "", outcome.text, ""]
    lines += [_line(outcome.head), _line(["---"] * len(outcome.head))]
    lines += [_line([cell.markdown for cell in row]) for row in outcome.rows]
    if outcome.claims:
        lines += ["", "| the paper's conclusion | in the paper | here | |", "|---|---|---|---|"]
        lines += [_line([claim.says, claim.paper, claim.here, claim.verdict]) for claim in outcome.claims]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"
