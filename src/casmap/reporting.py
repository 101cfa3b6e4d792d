"""What a long-running function reports while it runs. The library prints nothing: whoever calls it decides."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Advance(Protocol):
    """Moves a progress bar."""

    def __call__(self, steps: int = 1, note: str = "") -> None:
        """By so many steps, with a short text beside the bar."""


class Reporter:
    """Receives messages, warnings and progress, and discards them. Override what you want to show.

    >>> class Printing(Reporter):
    ...     def message(self, text: str) -> None:
    ...         print(text)
    >>> Printing().message("3 photos of 2 classes.")
    3 photos of 2 classes.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def heading(self, title: str) -> None:
        """A new part of the work begins."""

    def message(self, text: str) -> None:
        """A line worth reading."""

    def warning(self, text: str) -> None:
        """A line that should not be overlooked."""

    @contextmanager
    def progress(self, label: str, total: int, start: int = 0, lasting: bool = False) -> Iterator[Advance]:
        """Show a bar while the block runs, beginning at `start` of `total`; lasting: keep it on the screen."""
        yield lambda steps=1, note="": None

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        """Iterate over items under a bar of their own.

        >>> list(Reporter().track([1, 2], "counting"))
        [1, 2]
        """
        with self.progress(label, len(items)) as advance:
            for item in items:
                yield item
                advance()


SILENT = Reporter()
