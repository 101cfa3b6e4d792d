"""The tables and sentences that commands print."""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from casmap.cli.console import complain, console
from casmap.io.names import escaped
from casmap.reporting import counted, duration

if TYPE_CHECKING:
    from casmap.data.validate import Report as DataReport
    from casmap.evaluation.evaluate import Row
    from casmap.evaluation.table import Evaluation
    from casmap.paper.outcome import Outcome
    from casmap.paper.plan import Planned
    from casmap.paper.report import Report
    from casmap.tools.check import CheckResult
    from casmap.tools.correct import CorrectionResult
    from casmap.training.loop import TrainingResult

WIDE = 160  # columns that a terminal needs to show a study's full table instead of its summary
MARKS = {"best": "bold", "unseen": "italic dim"}  # styles of cells
GB = 1e9
SHOWN = 10  # photo names printed for each kind of problem
LEAST_GAIN = 0.001  # of the IoU by corrections: what the table can show
FEWEST = 3  # smallest classes that are listed


def table_of(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], **style: Any) -> Table:
    """Names left-aligned, numbers right-aligned; the best in bold, unseen classes in italics."""
    table = Table(title=title, **style)
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        styles = (" ".join(MARKS[mark] for mark in MARKS if getattr(cell, mark, False)) for cell in row)
        table.add_row(*map(Text, row, styles))
    return table


def show_outcome(outcome: "Outcome", folder: Path) -> None:
    """Print the table and the claims, write all files, and print the path of the page."""
    from casmap.paper.outcome import write_outcome

    narrow = outcome.summary is not None and console.width < WIDE
    if outcome.summary is not None and narrow:
        console.print(table_of(outcome.title, *outcome.summary, box=box.SIMPLE_HEAD))
    else:
        console.print(table_of(outcome.title, outcome.head, outcome.rows, show_lines=outcome.summary is not None))
    for one in outcome.further:  # without intervals, which are on a cell's further lines, if the terminal is narrow
        rows = [[cell.partition("\n")[0] for cell in row] for row in one.rows] if narrow else one.rows
        console.print(table_of(one.title, one.head, rows, box=box.SIMPLE_HEAD))
        if one.text:
            console.print(one.text, soft_wrap=True)
    for claim in outcome.claims:
        console.print(f"{claim.statement}: {claim.verdict} ({claim.here})", soft_wrap=True)
    if outcome.summary is not None:  # a table with this many columns needs an explanation
        console.print(outcome.text, soft_wrap=True)
    page = write_outcome(outcome, folder)
    if narrow:
        console.print(f"All columns and intervals: {page.with_suffix('.md')}", soft_wrap=True)
    console.print(f"\nPage: {page}", soft_wrap=True)


def print_plan(planned: Sequence["Planned"]) -> None:
    """One row for each kind of training, and the total; runs are sequential, so memory is the maximum."""
    from casmap.paper.plan import disk, memory

    head = ("", "runs", "steps of f(0)", "steps of Algorithm 1", "disk, GB", "memory, GB")
    counts = [(one.what, one.runs, one.first_steps, one.steps, disk(one), memory(one)) for one in planned]
    _, *numbers, memories = zip(*counts, strict=True)
    total = ("total", *map(sum, numbers), max(memories))
    *rows, last = [
        [what, str(runs), f"{first:,}", f"{steps:,}", f"{kept / GB:.1f}", f"{used / GB:.1f}"]
        for what, runs, first, steps, kept, used in [*counts, total]
    ]
    table = table_of("Required resources", head, rows)
    table.add_section()
    table.add_row(*last)
    console.print(table)
    console.print(
        "Disk: the files that are kept, and two checkpoints while one replaces the other. Memory: weights, gradients, "
        "optimiser state, the sample set and the activations of a batch, as 32-bit floats. Photos are not included."
    )


def print_report(report: "Report") -> None:
    """The paper's conclusions, and how many of them hold."""
    table = Table("", "in the paper", "here", "verdict", title="The paper's conclusions", show_lines=True)
    for claim in report.claims:
        table.add_row(claim.statement, claim.paper, claim.here, claim.verdict)
    console.print(table)
    console.print(f"{report.summary}\nPage: {report.page}", soft_wrap=True)


def print_check(checked: "CheckResult") -> None:
    """The accuracy of each classifier on each version of the photos, the comparison with control masks, the verdict."""
    from casmap.tools.check import AGAINST, HEAD, against, rows

    agree = "correct" if checked.known else "the same as for the whole photo"
    title = f"{counted(len(checked.names), 'photo')}: how often the predicted class is {agree}, percent [95 %]"
    console.print(table_of(title, HEAD, rows(checked)))
    if checked.measured is not None:
        title = f"Against control masks of the same area, {counted(len(checked.measured.masks), 'photo')} [95 %]"
        console.print(table_of(title, AGAINST, against(checked.measured)))
    print_verdict(checked.verdict, checked.warnings)


def print_verdict(verdict: str, reasons: Sequence[str]) -> None:
    """A verdict in its colour, and the reasons against the masks."""
    for sentence in reasons:
        console.print(f"Warning: {sentence}", style="yellow", soft_wrap=True)
    colour = {"good": "green", "doubtful": "red"}.get(verdict, "bold red")
    console.print(f"Verdict: {verdict}", style=colour)


def print_training(trained: "TrainingResult", seconds: float) -> None:
    """The mapping, its verdict and the next command; a verdict that is not good comes last, where it is seen.

    seconds: that the whole command took; not shown for a run that was already finished.
    """
    from casmap.training.held_out import advice

    took = f"took {duration(seconds)}; " if trained.seconds else ""
    console.print(
        f"\nMapping: {trained.mapping}\n"
        f"  {took}masks cover {trained.area:.0%} of a photo on average; all numbers: summary.json",
        soft_wrap=True,
    )
    following = f"Next: casmap extract PHOTOS --mapping {trained.mapping}"
    if trained.verdict == "doubtful":
        console.print(following, soft_wrap=True)
    print_verdict(trained.verdict, trained.reasons)
    if (sentence := advice(trained.verdict, trained.measured)) is not None:
        console.print(sentence, soft_wrap=True)
    if trained.verdict == "good":
        console.print(following, soft_wrap=True)


def print_correction(found: "CorrectionResult") -> None:
    """The IoU of masks and corrections by class, the worst first."""
    measured = {"before": found.before} | ({} if found.after is None else {"after": found.after})
    by_class = [of.by_class() for of in measured.values()]
    rows = [
        [name, str(count), *(f"{100 * of[name][1]:.1f}" for of in by_class)] for name, (count, _) in by_class[0].items()
    ]
    table = table_of(
        "IoU of masks and corrections, percent; the worst class first", ("class", "photos", *measured), rows
    )
    table.add_section()
    overall = (f"{100 * float(of.ious.mean()):.1f}" for of in measured.values())
    table.add_row("all", str(len(found.before.names)), *overall)
    console.print(table)
    if found.mapping is not None:
        console.print(
            f"Mapping: {found.mapping}\nIt was trained on the corrected photos: evaluate it on other photos.",
            soft_wrap=True,
        )
    if found.after is not None and found.after.ious.mean() - found.before.ious.mean() < LEAST_GAIN:
        complain(
            "The IoU did not rise: train for more steps (--steps), or train a better mapping first (casmap train), "
            "because a mapping that marks nearly everything or nothing cannot be corrected."
        )


def print_data(report: "DataReport", console: Console = console) -> None:
    """Print what `casmap data check` found."""
    import statistics  # takes a hundredth of the time of --help

    each = sorted(report.classes.values())
    many = f"{counted(each[0], 'photo')} each"
    if each[0] < each[-1]:
        many = f"{each[0]} to {counted(each[-1], 'photo')}, median {statistics.median(each):g}"
    lines = [
        f"Layout:     {report.understood}",
        f"Photos:     {report.photos}",
        f"Classes:    {len(each)}, with {many}",
    ]
    if each[0] < each[-1]:
        few = Counter(report.classes).most_common()[: -FEWEST - 1 : -1]
        lines.append(f"            fewest photos: {', '.join(f'{escaped(name)} ({count})' for name, count in few)}")
    if report.sizes:
        sizes = (f"{name} {width} x {height}" for name, (width, height) in report.sizes.items())
        lines.append(f"Sizes:      {', '.join(sizes)}")
    share = "" if report.box_share is None else f"; they cover {report.box_share:.1%} of the photo on average"
    lines.append(f"Boxes:      {counted(report.with_boxes, 'photo')}{share}")
    lines.append(f"Masks:      {counted(report.with_masks, 'photo')}")
    if report.with_parts:
        lines.append(f"Parts:      {counted(report.with_parts, 'photo')}")
    for line in lines:
        console.print(line, soft_wrap=True)
    for title, groups in (("Note", report.notes), ("Problem", report.problems)):
        for kind, names in groups.items():
            console.print(f"{title}: {len(names)} {kind}", style="bold", soft_wrap=True)
            for name in names[:SHOWN]:
                console.print(f"  {escaped(name)}", soft_wrap=True)
            if len(names) > SHOWN:
                console.print(f"  and {len(names) - SHOWN} more")
    if report.fine:
        console.print("No problems found.")


def print_rows(results: "Evaluation", everything: bool = False, console: Console = console) -> None:
    """Print one short table: masks and boxes as they are extracted, and LE by the paper's protocol.

    everything: print all measures instead, under all four protocols.
    """
    from casmap.evaluation.table import OM_NOTE, SHORT_NOTE, short_table

    if everything:
        _print_all(results, console)
        return
    title = f"{counted(len(results.rows[0].values['LE']), 'photo')}; percent with 95 % intervals"
    console.print(table_of(title, *short_table(results), box=box.SIMPLE_HEAD, title_justify="left"))
    console.print(SHORT_NOTE)
    if any("OM" in row.numbers for row in results.central_crop):
        console.print(OM_NOTE)


def _print_all(results: "Evaluation", console: Console) -> None:
    """Print all four protocols: whole photos, as extracted, the paper's central crop, the field's, Choe et al.'s."""
    from casmap.evaluation.blind import GAUSSIAN, SQUARE
    from casmap.evaluation.box_fit import EXTRACTED_RULES
    from casmap.evaluation.table import (
        FIELD_MEASURES,
        FIELD_PROTOCOL,
        FIT_MEASURES,
        FORMULAS,
        PAPER_MEASURES,
        WHOLE_PHOTO_F1,
        rule_rows,
        size_rows,
        table_rows,
        wsol_table,
    )
    from casmap.evaluation.wsol_protocol import WSOL_PROTOCOL

    rows, crop, field = (
        [row for row in of if row.name not in (SQUARE, GAUSSIAN)]  # for the last table only
        for of in (results.rows, results.central_crop, results.field_protocol)
    )
    head = ["", *(row.name for row in rows)]
    by_size = ["share (photos)", *head[1:]]
    what = f"{counted(len(rows[0].values['LE']), 'photo')}, threshold 0.5; 95 % bootstrap intervals"
    title = f"Whole photo resized to a square, as casmap extract does: {what}"
    console.print(table_of(title, head, table_rows(rows), show_lines=True))
    console.print(f"{FORMULAS}\n{WHOLE_PHOTO_F1}\n")
    further = functools.partial(table_of, box=box.SIMPLE_HEAD, title_justify="left")
    lines = rule_rows(rows, FIT_MEASURES, EXTRACTED_RULES)
    console.print(further("Whole photo: how well boxes and masks fit", head, lines))
    lines = size_rows(rows, EXTRACTED_RULES)
    console.print(further("Whole photo: LE ↓ by the share that the true box covers", by_size, lines))
    title = "The paper's protocol: the central square of each photo (central crop), alpha = 1"
    console.print(table_of(title, head, table_rows(crop, PAPER_MEASURES), show_lines=True))
    console.print()
    console.print(further("Central crop: LE ↓ by the share that the true box covers", by_size, size_rows(crop)))
    console.print(further("The field's protocol, as in BAS and SAT", head, rule_rows(field, FIELD_MEASURES)))
    console.print(FIELD_PROTOCOL)
    console.print(further("\nChoe et al.'s protocol (wsolevaluation)", *wsol_table(results)))
    console.print(WSOL_PROTOCOL)


def print_fidelity(rows: "Sequence[Row]", judge: str, console: Console = console) -> None:
    """Print the fidelity of masks to a judge, a line for each system."""
    from casmap.evaluation.fidelity import fidelity_note, fidelity_table
    from casmap.inference.components import Threshold

    photos = max(len(values) for row in rows for values in row.values.values())
    title = f"Fidelity to {judge}: {counted(photos, 'photo')}, 95 % bootstrap intervals"
    console.print(table_of(title, *fidelity_table(rows), box=box.SIMPLE_HEAD, title_justify="left"))
    console.print(fidelity_note(Threshold()))
