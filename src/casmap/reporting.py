"""The interface through which long-running functions report progress. The library itself prints nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


def counted(number: int, thing: str) -> str:
    """A number of things in words.

    >>> counted(1, "photo"), counted(2, "class")
    ('1 photo', '2 classes')
    """
    return f"{number} {thing}{'' if number == 1 else 'es' if thing.endswith(('s', 'x')) else 's'}"


class Advance(Protocol):
    """Advances a progress bar."""

    def __call__(self, steps: int = 1, note: str = "") -> None:
        """Advance by `steps` and show `note` beside the bar."""


class Reporter:
    """Receives messages, warnings and progress, and discards them. Override the methods you need.

    >>> class Printing(Reporter):
    ...     def message(self, text: str) -> None:
    ...         print(text)
    >>> Printing().message("3 photos of 2 classes.")
    3 photos of 2 classes.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def heading(self, title: str) -> None:
        """Show the title of the next part of the work."""

    def message(self, text: str) -> None:
        """Show one line of information."""

    def warning(self, text: str) -> None:
        """Show one line that needs the user's attention."""

    @contextmanager
    def progress(self, label: str, total: int, start: int = 0, lasting: bool = False) -> Iterator[Advance]:
        """Show a progress bar from `start` to `total` while the block runs; lasting: keep it on the screen."""
        yield lambda steps=1, note="": None

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        """Iterate over items and show a progress bar.

        >>> list(Reporter().track([1, 2], "counting"))
        [1, 2]
        """
        with self.progress(label, len(items)) as advance:
            for item in items:
                yield item
                advance()


SILENT = Reporter()


def duration(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> duration(1), duration(90), duration(5400), duration(3 * 86400)
    ('a second', '1.5 minutes', '1.5 hours', '3.0 days')
    """
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"


def whole_minutes(seconds: float) -> int:
    """The smallest whole number of minutes, at least 1, into which these seconds fit.

    >>> whole_minutes(56), whole_minutes(61)
    (1, 2)
    """
    return max(1, -int(-seconds // 60))


def ordinal(number: int) -> str:
    """A number as a place in a sequence.

    >>> ordinal(2), ordinal(6), ordinal(11), ordinal(21), ordinal(113)
    ('2nd', '6th', '11th', '21st', '113th')
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
