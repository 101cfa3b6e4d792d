"""What the command line prints: messages and progress with Rich, complaints to stderr."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from casmap.reporting import Advance, Reporter

# Names of files are printed as they are: "cat [copy].jpg" is no markup and ":smile:.png" no emoji.
# Of several processes that torchrun starts, the first speaks; all of them may complain.
console = Console(markup=False, emoji=False, highlight=False, quiet=os.environ.get("RANK", "0") != "0")
complaints = Console(markup=False, emoji=False, highlight=False, stderr=True)


class RichReporter(Reporter):
    """Shows what the library reports on a console."""

    def __init__(self, to: Console = console) -> None:
        self.console = to

    def heading(self, title: str) -> None:
        """A line across the screen."""
        self.console.rule(title)

    def message(self, text: str) -> None:
        """A line as it is, never broken: names of files can be copied."""
        self.console.print(text, soft_wrap=True)

    def warning(self, text: str) -> None:
        """The same in yellow."""
        self.console.print(text, style="yellow", soft_wrap=True)

    @contextmanager
    def progress(self, label: str, total: int, start: int = 0, lasting: bool = False) -> Iterator[Advance]:
        """A bar; a lasting one has counts, times and a note."""
        from rich import progress  # a tenth of the time of --help, which shows no bar

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
    """Print a sentence to stderr."""
    complaints.print("casmap:", style="bold red", end=" ")
    complaints.print(sentence, soft_wrap=True)


def name_skipped(skipped: list[str]) -> None:
    """Say why photos were left out; the exit code tells it too."""
    for complaint in skipped:
        complain(f"skipped: {complaint}")
    raise typer.Exit(1)
