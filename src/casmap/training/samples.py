"""F, the samples: classifiers of the past that the mapping must confuse too."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from casmap.models.classifier import Classifier
from casmap.training.distributed import ONE_PROCESS, Processes
from casmap.training.thinning import Thinning

State = Mapping[str, Tensor]
DRAW, THIN = (4, 100), (4, 116)  # two streams of random numbers, any two


class Samples:
    """The sample set F: copies of earlier classifiers, never live weights, and the newest, which is live.

    Every draw depends on the seed and the step alone, so that a resumed run draws as one that was never stopped.
    Memory: at most `limit` classifiers beside the one in training; one of them is the place in which an old one works.
    """

    def __init__(
        self, first: Classifier, thinning: Thinning, limit: int = 30, seed: int = 0, processes: Processes = ONE_PROCESS
    ) -> None:
        self.thinning, self.limit, self.seed, self.processes = thinning, limit, seed, processes
        self.step, self.newest = 0, first
        self.kept: list[State] = [processes.keep(first.state_dict())] if thinning.copies_first else []
        self.drawn = copy.deepcopy(first).eval().requires_grad_(False)

    def __len__(self) -> int:
        return len(self.kept) + 1

    def add(self, classifier: Classifier) -> None:
        """F <- F + {f(k)}."""
        self.step += 1
        self.newest = classifier

    def draw(self) -> Classifier:
        """F' ~ F: half of the time the newest, else one of the others, all as likely."""
        chance = self._chance(DRAW, self.step)
        if self._is_newest(chance):
            return self.newest
        self.drawn.load_state_dict(self.kept[chance.integers(len(self.kept))])
        return self.drawn

    def newest_is_next(self) -> bool:
        """Whether the draw that follows the next `add` will be the newest: it is decided by lot, not by weights."""
        return self._is_newest(self._chance(DRAW, self.step + 1))

    def thin(self) -> None:
        """F <- Thin(F): keep a copy of f(k) where the thinning says so; when F is full, one makes room."""
        if self.thinning.keeps is None or not self.thinning.keeps(self.step):
            return
        if len(self.kept) + 1 >= self.limit:  # the newest counts as one
            del self.kept[self.thinning.makes_room(len(self.kept), self._chance(THIN, self.step))]
        self.kept.append(self.processes.keep(self.newest.state_dict()))

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs."""
        return {"step": self.step, "kept": [dict(kept) for kept in self.kept]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where `state` was taken."""
        self.step, self.kept = state["step"], [self.processes.keep(kept) for kept in state["kept"]]

    def _is_newest(self, chance: np.random.Generator) -> bool:
        return not self.kept or chance.random() < 0.5

    def _chance(self, stream: tuple[int, int], step: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, step, *stream))


def megabytes(classifier: Classifier, thinning: Thinning, limit: int) -> float:
    """How much memory the sample set may take at most, in MB."""
    each = sum(t.numel() * t.element_size() for t in classifier.state_dict().values()) / 1e6
    return float(each * (thinning.copies(limit) + 1))
