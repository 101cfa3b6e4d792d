"""Thin: which classifiers of the past stay in the sample set. One decorated function for each thinning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from casmap.errors import UserError
from casmap.registry import Registry

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True)
class Thinning:
    """Which of f(0) ... f(k) stay in F.

    keeps_first, keeps_last: whether f(0) and the newest f stay; without the last, f is not trained.
    keeps: whether a copy of f(step) stays as well; None: never. makes_room: which of all copies goes when F is full.

    >>> find_thinning("L100").keeps(200), find_thinning("L100").copies(limit=30)
    (True, 29)
    """

    keeps_first: bool
    keeps_last: bool
    keeps: Callable[[int], bool] | None = None
    makes_room: "Callable[[int, Generator], int]" = lambda copies, chance: int(chance.integers(copies))

    @property
    def copies_first(self) -> bool:
        """Whether f(0) has to be copied: where f is not trained, it is f."""
        return self.keeps_first and self.keeps_last

    def copies(self, limit: int) -> int:
        """How many classifiers F holds at most beside the newest."""
        return limit - 1 if self.keeps else int(self.copies_first)


THINNINGS: Registry[Callable[[int | None], Thinning]] = Registry("thinning", plugins="casmap.thinnings", of=Callable)
PERIOD = "<period>"  # ends the name of a thinning that takes any number: L100 is L<period>


@THINNINGS.register("F")
def first(_period: int | None) -> Thinning:
    """The first: Baseline, classifier-dependent."""
    return Thinning(keeps_first=True, keeps_last=False)


@THINNINGS.register("L")
def last(_period: int | None) -> Thinning:
    """The last."""
    return Thinning(keeps_first=False, keeps_last=True)


@THINNINGS.register("FL")
def first_and_last(_period: int | None) -> Thinning:
    """Both."""
    return Thinning(keeps_first=True, keeps_last=True)


@THINNINGS.register(f"L{PERIOD}")
def last_and_every(period: int | None) -> Thinning:
    """The first, the last, and one of every `period`: the paper's CASM is L100."""
    return Thinning(keeps_first=True, keeps_last=True, keeps=lambda step: step % (period or 1) == 0)


def find_thinning(name: str, period: int | None = None) -> Thinning:
    """The thinning of this name; `period` overrides the number in a name such as L100.

    >>> find_thinning("M")
    Traceback (most recent call last):
    casmap.errors.UserError: There is no thinning 'M': choose from F, L, FL, L<period>.
    """
    stem = name.rstrip("0123456789")
    number = int(name.removeprefix(stem) or 0)
    family = f"{stem}{PERIOD}" if number and name not in THINNINGS else name
    if family not in THINNINGS or name.endswith(PERIOD):
        raise UserError(f"There is no thinning {name!r}: choose from {', '.join(THINNINGS)}.")
    return THINNINGS[family](period or number or None)
