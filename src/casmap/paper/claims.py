"""What the paper says, beside what is so here: one sentence each, with its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from casmap.evaluation.evaluate import Number

HOLDS, FAILS, TIE = "holds", "does not hold", "not settled"


@dataclass(frozen=True)
class Claim:
    """says: the paper's conclusion. paper, here: its numbers and ours. verdict: holds, does not hold, not settled."""

    says: str
    paper: str
    here: str
    verdict: str


def verdict_below(differences: Sequence[Number]) -> str:
    """Whether all differences are below 0: it fails if one is above, as far as its interval can tell.

    >>> below, around, above = Number(-2, -3, -1), Number(0, -1, 1), Number(2, 1, 3)
    >>> verdict_below([below, below]), verdict_below([below, around]), verdict_below([below, above])
    ('holds', 'not settled', 'does not hold')
    """
    if any(difference.low > 0 for difference in differences):
        return FAILS
    return HOLDS if all(difference.high < 0 for difference in differences) else TIE
