"""lambda_R, the weight of the mask's area in S: a fixed number, as in the paper, or adjusted to reach a given area."""

import math
from typing import Any

from casmap.training.scores import SCORES


def paper_lambda_r(score: str, thinning: str, classes: int = 1000) -> float:
    """The lambda_R of a score and a thinning, scaled by the maximum entropy of `classes` classes.

    That of an activation ratio, which has no unit, is not scaled.

    >>> paper_lambda_r("entropy", "L100")
    10.0
    """
    known = SCORES[score]
    scale = math.log(classes) / math.log(1000) if known.takes == "logits" else 1.0
    return known.lambda_r_of.get(thinning, known.lambda_r) * scale


class LambdaR:
    """lambda_R: `start` for the whole run, as in the paper, or adjusted until the mean mask area is `target`.

    The adjustment is a PI controller on log lambda_R:
    log lambda_R = log start + I + P * e, where e = area - target of a short running mean, and I sums RATE * e over the
    steps. While masks are too large, lambda_R rises, whatever the scale of the score. P reacts at once and I slowly;
    the other way round the area oscillates, because masks follow lambda_R with a delay of some steps.
    """

    PROPORTION = 8.0
    # The upper limit of P * e. Adam's moments remember a jump of lambda_R for a thousand steps: after a 30-fold jump
    # some masks stayed empty.
    PUSH = 1.0
    RATE = 0.1
    MEMORY = 0.3  # of the running mean
    BOUNDS = (-9.0, 9.0)  # of I: lambda_R stays within a factor of e**9 of its start, so that it can always recover

    def __init__(self, start: float, target: float | None = None) -> None:
        self.start, self.target = start, target
        self.area: float | None = None
        self.integral = 0.0

    @property
    def value(self) -> float:
        """The current lambda_R."""
        if self.target is None or self.area is None:
            return self.start
        error = self.area - self.target
        return self.start * math.exp(self.integral + min(self.PUSH, self.PROPORTION * error))

    def observe(self, area: float) -> None:
        """Update lambda_R with the mean mask area of a batch; a fixed lambda_R ignores it."""
        if self.target is None:
            return
        self.area = area if self.area is None else self.MEMORY * self.area + (1 - self.MEMORY) * area
        low, high = self.BOUNDS
        self.integral = min(high, max(low, self.integral + self.RATE * (self.area - self.target)))

    def state_dict(self) -> dict[str, Any]:
        """The state that a checkpoint stores; a fixed lambda_R has none."""
        return {} if self.target is None else {"area": self.area, "integral": self.integral}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.area, self.integral = state.get("area"), state.get("integral", 0.0)
