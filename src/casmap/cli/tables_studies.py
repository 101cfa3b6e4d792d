"""What studies, `casmap check` and `casmap correct` print: tables and sentences."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from casmap.cli.console import console

if TYPE_CHECKING:
    from casmap.paper.outcome import Outcome
    from casmap.paper.plan import Planned
    from casmap.paper.report import Report
    from casmap.tools.check import CheckResult
    from casmap.tools.correct import CorrectionResult

WIDE = 160  # columns of a terminal for all of a table that has a summary
GB = 1e9


def table_of(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], **style: Any) -> Table:
    """Names at the left, numbers at the right; the best are bold, the unseen in italics."""
    table = Table(title=title, **style)
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*(Text(cell, _style(cell)) for cell in row))
    return table


def _style(cell: str) -> str:
    best, unseen = getattr(cell, "best", False), getattr(cell, "unseen", False)
    return " ".join(["bold"] * best + ["italic dim"] * unseen)


def show_outcome(outcome: "Outcome", folder: Path) -> None:
    """Print the table and the claims, write all files, and say where the page is."""
    from casmap.paper.outcome import write_outcome

    narrow = outcome.summary is not None and console.width < WIDE
    if outcome.summary is not None and narrow:
        console.print(table_of(outcome.title, *outcome.summary, box=box.SIMPLE_HEAD))
    else:
        console.print(table_of(outcome.title, outcome.head, outcome.rows, show_lines=outcome.summary is not None))
    for claim in outcome.claims:
        console.print(f"{claim.says}: {claim.verdict} ({claim.here})", soft_wrap=True)
    if outcome.summary is not None:  # a table of so many columns says what they mean
        console.print(outcome.text, soft_wrap=True)
    page = write_outcome(outcome, folder)
    if narrow:
        console.print(f"With all columns and intervals: {page.with_suffix('.md')}", soft_wrap=True)
    console.print(f"\nPage: {page}", soft_wrap=True)


def print_plan(planned: Sequence["Planned"]) -> None:
    """A row for each kind of training, and all together; runs follow one another, so memory does not add up."""
    from casmap.paper.plan import disk, memory

    head = ("", "runs", "steps of f(0)", "steps of Algorithm 1", "disk, GB", "memory, GB")
    counts = [(one.what, one.runs, one.first_steps, one.steps, disk(one), memory(one)) for one in planned]
    _, *numbers, memories = zip(*counts, strict=True)
    in_all = ("in all", *map(sum, numbers), max(memories))
    *rows, last = [
        [what, str(runs), f"{first:,}", f"{steps:,}", f"{kept / GB:.1f}", f"{used / GB:.1f}"]
        for what, runs, first, steps, kept, used in [*counts, in_all]
    ]
    table = table_of("what this would take", head, rows)
    table.add_section()
    table.add_row(*last)
    console.print(table)
    console.print(
        "Disk: the files that stay, and a checkpoint with the one that replaces it. Memory: weights, their gradients "
        "and the optimisers' state, the sample set, and the activations of a batch; 32-bit numbers. Photos not counted."
    )


def print_report(report: "Report") -> None:
    """The paper's conclusions, and how many of them hold."""
    table = Table("", "in the paper", "here", "", title="the paper's conclusions", show_lines=True)
    for claim in report.claims:
        table.add_row(claim.says, claim.paper, claim.here, claim.verdict)
    console.print(table)
    console.print(f"{report.summary}\nPage: {report.page}", soft_wrap=True)


def print_check(checked: "CheckResult") -> None:
    """What classifiers still see, and every reason not to trust the masks."""
    from casmap.tools.check import HEAD, rows

    what = "right" if checked.known else "of the same opinion as about the whole photo"
    title = f"{len(checked.names)} photos: how often classifiers are {what}, percent [95 %]"
    console.print(table_of(title, HEAD, rows(checked)))
    for sentence in checked.complaints:
        console.print(f"Warning: {sentence}", style="yellow", soft_wrap=True)


def print_correction(found: "CorrectionResult") -> None:
    """How far masks agree with people, by class, the worst first."""
    measured = {"before": found.before} | ({} if found.after is None else {"after": found.after})
    by_class = [of.by_class() for of in measured.values()]
    rows = [
        [name, str(count), *(f"{100 * of[name][1]:.1f}" for of in by_class)] for name, (count, _) in by_class[0].items()
    ]
    table = table_of(
        "IoU of masks and corrections, percent; the worst class first", ("class", "photos", *measured), rows
    )
    table.add_section()
    overall = (f"{100 * float(of.overlaps.mean()):.1f}" for of in measured.values())
    table.add_row("all", str(len(found.before.names)), *overall)
    console.print(table)
    if found.mapping is not None:
        console.print(
            f"Mapping: {found.mapping}\nIt has seen the corrected photos: judge it by others.", soft_wrap=True
        )
