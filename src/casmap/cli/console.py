"""The output of the command line: messages and progress with Rich on stdout, errors on stderr."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from casmap.errors import Stopped
from casmap.io.names import escaped
from casmap.reporting import Advance, Reporter


class SafeConsole(Console):
    """Shows the control characters of file names as `\\x1b`: a name can neither move the cursor nor set a title."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments without control characters other than line breaks; Rich's own are marked as control."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text == "\n" or text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(escaped, text.split("\n"))), style)


# File names are printed unchanged: "cat [copy].jpg" is not markup and ":smile:.png" not an emoji.
# Of the processes that torchrun starts, only the first prints messages; all of them print errors.
console = SafeConsole(markup=False, emoji=False, highlight=False, quiet=os.environ.get("RANK", "0") != "0")
complaints = SafeConsole(markup=False, emoji=False, highlight=False, stderr=True)


class RichReporter(Reporter):
    """Shows what the library reports on a console.

    interval: seconds between two lines of progress if the output is not a terminal.
    """

    def __init__(self, to: Console = console, interval: float = 30.0) -> None:
        self.console, self.interval = to, interval

    def heading(self, title: str) -> None:
        """Print a title on a line across the screen."""
        self.console.rule(escaped(title))

    def message(self, text: str) -> None:
        """Print a line without wrapping it, so that file names can be copied."""
        self.console.print(escaped(text), soft_wrap=True)

    def warning(self, text: str) -> None:
        """Print a line in yellow without wrapping it."""
        self.console.print(escaped(text), style="yellow", soft_wrap=True)

    @contextmanager
    def progress(self, label: str, total: int, start: int = 0, lasting: bool = False) -> Iterator[Advance]:
        """Show a bar, or print plain lines if the output is not a terminal; a lasting bar shows counts and times."""
        if not (self.console.is_interactive or self.console.is_jupyter):
            yield self._lines(label, total, start, lasting)
            return
        from rich import progress  # takes a tenth of the time of --help, which shows no bar

        columns = (
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(), progress.TimeRemainingColumn(), progress.TextColumn("{task.fields[note]}"),
        )  # fmt: skip
        with progress.Progress(*(columns if lasting else ()), console=self.console, transient=not lasting) as bar:
            task = bar.add_task(label, total=total, completed=start, note="")

            def advance(steps: int = 1, note: str = "") -> None:
                bar.update(task, advance=steps, note=escaped(note))

            yield advance

    def _lines(self, label: str, total: int, start: int, lasting: bool) -> Advance:
        """Print a line at most every `interval` seconds and, of lasting progress, one at its end."""
        began = printed = time.monotonic()
        done = start

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done, printed
            done, now = done + steps, time.monotonic()
            if now - printed >= self.interval or (lasting and done == total):
                printed = now
                took = now - began
                left = timedelta(seconds=round(took / max(1, done - start) * (total - done)))
                when = f"{left} left" if done < total else f"took {timedelta(seconds=round(took))}"
                self.message(", ".join(filter(None, (f"{label}: {done} of {total}", when, note))))

        return advance


reporter = RichReporter()


def complain(sentence: str) -> None:
    """Print an error to stderr."""
    complaints.print("casmap:", style="bold red", end=" ")
    complaints.print(escaped(sentence), soft_wrap=True)


@contextmanager
def if_stopped(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Say this sentence if the block is stopped by Ctrl-C or SIGTERM and does not say one itself.

    sentence: a function is called when the block is stopped.

    >>> try:
    ...     with if_stopped("Stopped. To continue, add --resume."):
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt as stop:
    ...     print(stop)
    Stopped. To continue, add --resume.
    """
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as stop:
        raise Stopped(sentence if isinstance(sentence, str) else sentence()) from stop


def end_process(clean_up: Callable[[], None], patience: float = 1.0) -> None:
    """Exit with code 0 if threads are still busy, with a photo for instance: Python itself would wait for them.

    clean_up: removes what the threads would have removed.
    """
    end = time.monotonic() + patience
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0, end - time.monotonic()))
            if thread.is_alive():
                clean_up()
                sys.stdout.flush()
                os._exit(0)


def name_skipped(skipped: list[str]) -> None:
    """Print the skipped photos with the reason for each, and exit with code 1."""
    for complaint in skipped:
        complain(f"skipped: {complaint}")
    raise typer.Exit(1)
