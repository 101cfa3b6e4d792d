"""Thin: which earlier classifiers stay in the sample set F. One decorated function for each thinning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from casmap.errors import UserError
from casmap.io.reading import shown
from casmap.registry import Registry

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True)
class Thinning:
    """Which of f(0) ... f(k) stay in F.

    keeps_first, keeps_last: whether f(0) and the newest f stay; without the newest, f is not trained.
    keeps: whether F keeps a copy of f(step); None: never. evict: the index of the copy to remove when F is full.

    >>> find_thinning("L100").keeps(200), find_thinning("L100").copies(limit=30)
    (True, 29)
    """

    keeps_first: bool
    keeps_last: bool
    keeps: Callable[[int], bool] | None = None
    evict: "Callable[[int, Generator], int]" = lambda copies, rng: int(rng.integers(copies))

    @property
    def copies_first(self) -> bool:
        """Whether F starts with a copy of f(0); if f is not trained, f itself is f(0)."""
        return self.keeps_first and self.keeps_last

    def copies(self, limit: int) -> int:
        """The maximum number of classifiers in F beside the newest."""
        return limit - 1 if self.keeps else int(self.copies_first)


THINNINGS: Registry[Callable[[int | None], Thinning]] = Registry("thinning", plugins="casmap.thinnings", of=Callable)
PERIOD = "<period>"  # ends the name of a thinning that takes a number: L100 is L<period>


@THINNINGS.register("F")
def first(_period: int | None) -> Thinning:
    """Keep f(0) only: the paper's Baseline, which depends on one classifier."""
    return Thinning(keeps_first=True, keeps_last=False)


@THINNINGS.register("L")
def last(_period: int | None) -> Thinning:
    """Keep the newest only."""
    return Thinning(keeps_first=False, keeps_last=True)


@THINNINGS.register("FL")
def first_and_last(_period: int | None) -> Thinning:
    """Keep f(0) and the newest."""
    return Thinning(keeps_first=True, keeps_last=True)


@THINNINGS.register(f"L{PERIOD}")
def last_and_every(period: int | None) -> Thinning:
    """Keep f(0), the newest, and the classifier of every `period`-th step: the paper's CASM is L100."""
    return Thinning(keeps_first=True, keeps_last=True, keeps=lambda step: step % (period or 1) == 0)


def find_thinning(name: str, period: int | None = None) -> Thinning:
    """The thinning of this name; `period` overrides the number in a name such as L100.

    >>> find_thinning("M")
    Traceback (most recent call last):
    casmap.errors.UserError: There is no thinning 'M': choose from F, L, FL, L<period>.
    """
    stem = name.rstrip("0123456789")
    digits = name.removeprefix(stem)
    number = int(digits) if 0 < len(digits) < 10 else 0
    family = f"{stem}{PERIOD}" if number and name not in THINNINGS else name
    if family not in THINNINGS or name.endswith(PERIOD):
        raise UserError(f"There is no thinning {shown(name)}: choose from {', '.join(THINNINGS)}.")
    return THINNINGS[family](period or number or None)
