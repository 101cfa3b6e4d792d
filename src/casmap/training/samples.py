"""F, the sample set: earlier classifiers that the mapping must mislead too."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from casmap.models.split import Learner
from casmap.training.distributed import ONE_PROCESS, Processes
from casmap.training.thinning import Thinning

State = Mapping[str, Tensor]
DRAW, THIN = (4, 100), (4, 116)  # keys of two independent random streams


class Samples:
    """The sample set F: copies of earlier classifiers, and the newest classifier itself, which is in training.

    Every draw depends only on the seed and the step, so that a resumed run draws the same classifiers.
    Memory: at most `limit` classifiers beside the one in training; one of them is `drawn`, into which a copy is loaded.
    If features are erased, the classifiers are tails: f(0), their common trunk, is no part of F.
    """

    def __init__(
        self, first: Learner, thinning: Thinning, limit: int = 30, seed: int = 0, processes: Processes = ONE_PROCESS
    ) -> None:
        self.thinning, self.limit, self.seed, self.processes = thinning, limit, seed, processes
        self.step, self.newest = 0, first
        self.kept: list[State] = [processes.copy_weights(first.state_dict())] if thinning.copies_first else []
        self.drawn = copy.deepcopy(first).eval().requires_grad_(False)

    def __len__(self) -> int:
        return len(self.kept) + 1

    def add(self, classifier: Learner) -> None:
        """F <- F + {f(k)}."""
        self.step += 1
        self.newest = classifier

    def draw(self) -> Learner:
        """Sample(F) = f': the newest with probability 1/2, otherwise one of the copies, uniformly."""
        rng = np.random.default_rng((self.seed, self.step, *DRAW))
        if not self.kept or rng.random() < 0.5:
            return self.newest
        self.drawn.load_state_dict(self.kept[rng.integers(len(self.kept))])
        return self.drawn

    def newest_is_next(self) -> bool:
        """Whether the draw after the next `add` returns the newest; the random numbers do not depend on the weights."""
        return not self.kept or np.random.default_rng((self.seed, self.step + 1, *DRAW)).random() < 0.5

    def thin(self) -> None:
        """F <- Thin(F): keep a copy of f(k) if the thinning keeps this step; if F is full, remove another copy."""
        if self.thinning.keeps is None or not self.thinning.keeps(self.step):
            return
        if len(self.kept) + 1 >= self.limit:  # + 1: the newest
            rng = np.random.default_rng((self.seed, self.step, *THIN))
            del self.kept[self.thinning.evict(len(self.kept), rng)]
        self.kept.append(self.processes.copy_weights(self.newest.state_dict()))

    def state_dict(self) -> dict[str, Any]:
        """The state that a checkpoint stores."""
        return {"step": self.step, "kept": [dict(kept) for kept in self.kept]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.step, self.kept = state["step"], [self.processes.copy_weights(kept) for kept in state["kept"]]


def megabytes(classifier: Learner, thinning: Thinning, limit: int) -> float:
    """The maximum memory of the sample set, in MB."""
    each = sum(t.numel() * t.element_size() for t in classifier.state_dict().values()) / 1e6
    return float(each * (thinning.copies(limit) + 1))
