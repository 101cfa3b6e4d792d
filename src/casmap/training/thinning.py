"""Thin: which classifiers of the past stay in the sample set."""

from dataclasses import dataclass

from casmap.errors import UserError


@dataclass(frozen=True)
class Thinning:
    """Which of f(0) ... f(k) stay in F.

    F: the first (Baseline, classifier-dependent); L: the last; FL: both; L100: the last, and one of every 100.

    >>> Thinning.named("L1000")
    Thinning(name='L1000', keeps_first=True, keeps_last=True, period=1000)
    """

    name: str
    keeps_first: bool
    keeps_last: bool
    period: int | None

    @classmethod
    def named(cls, name: str, period: int | None = None) -> "Thinning":
        """The thinning called F, L, FL or L<period>; `period` overrides the one in the name."""
        match name:
            case "F":
                return cls(name, True, False, None)
            case "L":
                return cls(name, False, True, None)
            case "FL":
                return cls(name, True, True, None)
        if name[:1] == "L" and name[1:].isdecimal() and int(name[1:]) > 0:
            return cls(name, True, True, period or int(name[1:]))
        raise UserError(f"There is no thinning {name!r}: choose F, L, FL, L100 or L1000 (L and any period).")
