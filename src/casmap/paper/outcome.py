"""The outcome of a study: rows, records, figures and claims; as CSV, Markdown, JSON and one page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from casmap.evaluation.evaluate import Number
from casmap.io.atomic import write_whole
from casmap.io.reading import is_inside, read_bytes, read_text, reading
from casmap.io.tabular import to_csv
from casmap.tools.page import Section, write_page

HOLDS, FAILS, TIE = "holds", "does not hold", "not settled"

MAX_JSON = MAX_FIGURE = 2**28  # bytes of an outcome and of a figure


class Cell(str):
    """The text of a cell, whether it is the best of its column, and whether its classes were unseen in training.

    >>> Cell("36.1", best=True).markdown, Cell("46.5", unseen=True).markdown, Cell("3", True, True).markdown
    ('**36.1**', '*46.5*', '***3***')
    """

    best: bool
    unseen: bool

    def __new__(cls, text: str, best: bool = False, unseen: bool = False) -> "Cell":
        """A cell from its text and marks."""
        cell = super().__new__(cls, text)
        cell.best, cell.unseen = best, unseen
        return cell

    @property
    def markdown(self) -> str:
        """The best in bold, unseen classes in italics, as in the paper."""
        stars = "*" * (2 * self.best + self.unseen)
        return f"{stars}{self}{stars}"


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper, its numbers there and here, and the verdict: holds, does not hold, not settled."""

    statement: str
    paper: str
    here: str
    verdict: str


def verdict_below(differences: Sequence[Number]) -> str:
    """Whether all differences are below 0: the claim fails if the interval of any one lies above 0.

    >>> below, around, above = Number(-2, -3, -1), Number(0, -1, 1), Number(2, 1, 3)
    >>> verdict_below([below, below]), verdict_below([below, around]), verdict_below([below, above])
    ('holds', 'not settled', 'does not hold')
    """
    if any(difference.low > 0 for difference in differences):
        return FAILS
    return HOLDS if all(difference.high < 0 for difference in differences) else TIE


@dataclass(frozen=True)
class Further:
    """A further table of a study, printed and written below the first. text: a note on it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a study.

    name: of the study and its files. text: how it was measured. head, rows: the printed table. records: every number,
    one dictionary for each line of the CSV. figures: PNG files by the endings of their names. claims: the paper's.
    summary: head and rows for a narrow terminal, if the full table is too wide for it; it is not written to a file.
    further: more tables of the same rows.
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
    further: Sequence[Further] = ()


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write NAME.csv, .md, .html, .json and the figures; the JSON comes last and marks completion. Returns the page."""
    images = {f"{outcome.name}{ending}.png": image for ending, image in outcome.figures.items()}
    for file, image in images.items():
        write_whole(folder / file, image)
    write_whole(folder / f"{outcome.name}.csv", to_csv(outcome.records))
    write_whole(folder / f"{outcome.name}.md", to_markdown(outcome))
    sections = [claims_section(outcome.claims)] if outcome.claims else []
    sections += [found_section(outcome, "Results"), *further_sections(outcome)]
    page = folder / f"{outcome.name}.html"
    write_page(page, outcome.title, outcome.text, sections)
    content = {
        "name": outcome.name, "title": outcome.title, "text": outcome.text, "head": list(outcome.head),
        "rows": _cells(outcome.rows),
        "records": [dict(record) for record in outcome.records], "figures": list(images),
        "claims": [asdict(claim) for claim in outcome.claims],
        "further": [
            {"title": one.title, "head": list(one.head), "rows": _cells(one.rows), "text": one.text}
            for one in outcome.further
        ],
    }  # fmt: skip
    write_whole(folder / f"{outcome.name}.json", json.dumps(content, indent=2) + "\n")
    return page


def read_outcome(path: Path) -> Outcome:
    """Read an outcome from its JSON and the figures next to it."""
    with reading(path, f"{path} is damaged: run the study again; its finished parts are reused."):
        content = json.loads(read_text(path, MAX_JSON))
        rows = _read_cells(content["rows"])
        more = content.get("further", [])  # not in files of 0.1.0
        further = tuple(
            Further(one["title"], one["head"], _read_cells(one["rows"]), one.get("text", "")) for one in more
        )
        figures = {}
        for file in content["figures"]:
            if file != Path(file).name or not is_inside(path.parent / file, path.parent):
                raise ValueError("a figure in another folder")
            ending = file.removeprefix(content["name"]).removesuffix(".png")
            figures[ending] = read_bytes(path.parent / file, MAX_FIGURE)
        # In files of 0.1.0 and 0.2.0 the statement is called "says".
        claims = [
            Claim(**{"statement" if key == "says" else key: value for key, value in claim.items()})
            for claim in content["claims"]
        ]
        name, title, text, head, records = (content[key] for key in ("name", "title", "text", "head", "records"))
        texts = [name, title, text, *head, *(word for one in further for word in (one.title, one.text, *one.head))]
        texts += [value for claim in claims for value in vars(claim).values()]
        if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, dict) for one in records):
            raise ValueError("other types")
        return Outcome(name, title, text, head, rows, records, figures, claims, further=further)


def found_section(outcome: Outcome, title: str, text: str = "") -> Section:
    """The table and the figures of an outcome; for a figure the images come first."""
    figure = outcome.name.startswith("figure")
    images = [(end.strip("-") or outcome.title, png) for end, png in outcome.figures.items()]
    return Section(title, text, outcome.head, outcome.rows, images=images, images_first=figure)


def further_sections(outcome: Outcome) -> list[Section]:
    """The further tables of an outcome."""
    return [Section(one.title, one.text, one.head, one.rows) for one in outcome.further]


def claims_section(claims: Sequence[Claim]) -> Section:
    """The paper's conclusions next to the results here."""
    rows = [(claim.statement, claim.verdict, claim.here, claim.paper) for claim in claims]
    return Section("The paper's conclusions", head=("", "verdict", "here", "in the paper"), rows=rows, words=True)


def to_markdown(outcome: Outcome) -> str:
    """Title, table, a table of the paper's conclusions, and further tables."""
    lines = [f"# {outcome.title}", "", outcome.text, ""]
    lines += _markdown_table(outcome.head, outcome.rows)
    if outcome.claims:
        lines += ["", "| the paper's conclusion | in the paper | here | verdict |", "|---|---|---|---|"]
        lines += [_line([claim.statement, claim.paper, claim.here, claim.verdict]) for claim in outcome.claims]
    for one in outcome.further:
        lines += ["", f"## {one.title}", "", *_markdown_table(one.head, one.rows)]
        lines += ["", one.text] if one.text else []
    return "\n".join(lines) + "\n"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *(_line([cell.markdown for cell in row]) for row in rows)]


def _cells(rows: Sequence[Sequence[Cell]]) -> list[list[dict[str, Any]]]:
    return [[{"text": cell, "best": cell.best, "unseen": cell.unseen} for cell in row] for row in rows]


def _read_cells(rows: Any) -> list[list[Cell]]:
    return [[Cell(cell["text"], cell["best"], cell["unseen"]) for cell in row] for row in rows]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"
