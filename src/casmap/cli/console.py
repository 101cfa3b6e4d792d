"""Output of the command line: messages and progress with Rich, errors to stderr."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from casmap.reporting import Advance, Reporter

# File names are printed unchanged: "cat [copy].jpg" is not markup and ":smile:.png" is not an emoji.
# If torchrun starts several processes, only the first prints messages; all of them print errors.
console = Console(markup=False, emoji=False, highlight=False, quiet=os.environ.get("RANK", "0") != "0")
complaints = Console(markup=False, emoji=False, highlight=False, stderr=True)


class RichReporter(Reporter):
    """Prints what the library reports to a console."""

    def __init__(self, to: Console = console) -> None:
        self.console = to

    def heading(self, title: str) -> None:
        """Print a heading: a rule across the screen."""
        self.console.rule(title)

    def message(self, text: str) -> None:
        """Print a line without wrapping, so that file names can be copied."""
        self.console.print(text, soft_wrap=True)

    def warning(self, text: str) -> None:
        """Print a line in yellow."""
        self.console.print(text, style="yellow", soft_wrap=True)

    @contextmanager
    def progress(self, label: str, total: int, start: int = 0, lasting: bool = False) -> Iterator[Advance]:
        """Show a progress bar; a lasting bar has counts, times and a note."""
        from rich import progress  # this import takes a tenth of the time of --help

        columns = (
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(), progress.TimeRemainingColumn(), progress.TextColumn("{task.fields[note]}"),
        )  # fmt: skip
        with progress.Progress(*(columns if lasting else ()), console=self.console, transient=not lasting) as bar:
            task = bar.add_task(label, total=total, completed=start, note="")

            def advance(steps: int = 1, note: str = "") -> None:
                bar.update(task, advance=steps, note=note)

            yield advance


reporter = RichReporter()


def complain(sentence: str) -> None:
    """Print an error to stderr."""
    complaints.print("casmap:", style="bold red", end=" ")
    complaints.print(sentence, soft_wrap=True)


def name_skipped(skipped: list[str]) -> None:
    """Print the error of each skipped photo and exit with code 1."""
    for complaint in skipped:
        complain(f"skipped: {complaint}")
    raise typer.Exit(1)
