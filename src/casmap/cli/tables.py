"""What commands print of their results: tables and sentences."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from casmap.cli.console import console

if TYPE_CHECKING:
    from casmap.data.validate import Report as DataReport
    from casmap.evaluation.table import Evaluation
    from casmap.paper.outcome import Outcome
    from casmap.paper.plan import Planned
    from casmap.paper.report import Report
    from casmap.tools.check import CheckResult
    from casmap.tools.correct import CorrectionResult

WIDE = 160  # columns of a terminal for all of a table that has a summary
MARKS = {"best": "bold", "unseen": "italic dim"}  # of cells
GB = 1e9
SHOWN = 10  # names of each kind of problem that are printed
FEWEST = 3  # small classes that are named


def table_of(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], **style: Any) -> Table:
    """Names at the left, numbers at the right; the best are bold, the unseen in italics."""
    table = Table(title=title, **style)
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        styles = (" ".join(MARKS[mark] for mark in MARKS if getattr(cell, mark, False)) for cell in row)
        table.add_row(*map(Text, row, styles))
    return table


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


def print_data(report: "DataReport", console: Console = console) -> None:
    """Say what was found, in lines for a person."""
    each = sorted(report.classes.values())
    lines = [
        f"Understood: {report.understood}",
        f"Photos:     {report.photos}",
        f"Classes:    {len(each)}, of {each[0]} to {each[-1]} photos, median {statistics.median(each):g}",
    ]
    if each[0] < each[-1]:
        few = Counter(report.classes).most_common()[: -FEWEST - 1 : -1]
        lines.append(f"            fewest in {', '.join(f'{name} ({count})' for name, count in few)}")
    if report.sizes:
        sizes = (f"{name} {width} x {height}" for name, (width, height) in report.sizes.items())
        lines.append(f"Sizes:      {', '.join(sizes)}")
    share = "" if report.box_share is None else f"; they cover {report.box_share:.1%} of the picture on average"
    lines.append(f"Boxes:      {report.with_boxes} photos{share}")
    lines.append(f"Masks:      {report.with_masks} photos")
    if report.with_parts:
        lines.append(f"Parts:      {report.with_parts} photos")
    for line in lines:
        console.print(line, soft_wrap=True)
    for title, groups in (("Worth knowing", report.notes), ("Wrong", report.problems)):
        for kind, names in groups.items():
            console.print(f"{title}: {len(names)} {kind}", style="bold", soft_wrap=True)
            for name in names[:SHOWN]:
                console.print(f"  {name}", soft_wrap=True)
            if len(names) > SHOWN:
                console.print(f"  and {len(names) - SHOWN} more")
    if report.fine:
        console.print("Nothing is wrong.")


def print_rows(results: "Evaluation", console: Console = console) -> None:
    """Print the table (central crop), and what the other resizing policy changes, as the supplement does."""
    from casmap.evaluation.table import COLUMNS, FORMULAS, text_of

    rows = results.rows
    cells = [
        [title, *(text_of(row.numbers.get(key), scale) for row in rows)]
        for key, (title, scale) in COLUMNS.items() if any(key in row.numbers for row in rows)
    ]  # fmt: skip
    title = f"{len(rows[0].values['LE'])} photos, central crop, alpha = 1; 95 % bootstrap intervals"
    console.print(table_of(title, ["", *(row.name for row in rows)], cells, show_lines=True))
    console.print(FORMULAS)
    for row in rows:
        crop, squash = row.numbers["LE"].value * 100, results.squashed[row.name] * 100
        if crop != squash:  # square photos are the same either way
            told = f"LE {crop:.1f} with the central crop, {squash:.1f} squashed: {squash - crop:+.1f}"
            console.print(f"{row.name}: {told}", soft_wrap=True)
