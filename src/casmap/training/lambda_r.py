"""lambda_R: a number, as in the paper, or found by itself so that the masks have the area one asks for."""

import math
from typing import Any

from casmap.training.scores import SCORES


def paper_lambda_r(score: str, thinning: str, classes: int = 1000) -> float:
    """The lambda_R of a score and a thinning, scaled by the largest entropy that `classes` allow.

    >>> paper_lambda_r("entropy", "L100")
    10.0
    """
    known = SCORES[score]
    return known.lambda_r_of.get(thinning, known.lambda_r) * math.log(classes) / math.log(1000)


class FixedLambdaR:
    """The paper's way: one number for the whole run."""

    def __init__(self, value: float) -> None:
        self.value = value

    def observe(self, area: float) -> None:
        """Nothing to learn from it."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing to resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to resume."""


class AreaController:
    """Finds lambda_R so that the mean mask area settles at `target`: a PI controller on log lambda_R.

    log lambda_R = log start + I + P * e, where e = area - target of a short running mean, and I sums RATE * e over the
    steps: while masks are too large the price of a pixel rises, whatever the unit of the score. P answers at once and
    I slowly: the other way round masks swing, since they follow the price some steps behind.

    >>> steer = AreaController(target=0.3, start=1.0)
    >>> for _ in range(50):
    ...     steer.observe(0.6)
    >>> steer.value > 2
    True
    """

    PROPORTION = 8.0
    # The most that P * e adds. Adam remembers a leap of the price for a thousand steps: after one of 30-fold some masks
    # stayed empty.
    PUSH = 1.0
    RATE = 0.1
    MEMORY = 0.3  # of the running mean
    BOUNDS = (-9.0, 9.0)  # of I: lambda_R stays within e**9 of its start, so that it can always come back

    def __init__(self, target: float, start: float) -> None:
        self.target, self.start = target, start
        self.area: float | None = None
        self.integral = 0.0

    @property
    def value(self) -> float:
        """lambda_R now."""
        error = 0.0 if self.area is None else self.area - self.target
        return self.start * math.exp(self.integral + min(self.PUSH, self.PROPORTION * error))

    def observe(self, area: float) -> None:
        """Take the mean mask area of a batch into account."""
        self.area = area if self.area is None else self.MEMORY * self.area + (1 - self.MEMORY) * area
        low, high = self.BOUNDS
        self.integral = min(high, max(low, self.integral + self.RATE * (self.area - self.target)))

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs."""
        return {"area": self.area, "integral": self.integral}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where `state` was taken."""
        self.area, self.integral = state["area"], state["integral"]


LambdaR = FixedLambdaR | AreaController
