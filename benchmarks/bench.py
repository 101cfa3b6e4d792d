"""What all benchmarks share: timing several variants in turns in one process, and ratios with intervals."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from casmap.evaluation.numbers import bootstrap_statistic

ROUNDS = 9


@dataclass(frozen=True)
class Ratio:
    """How many times as long one variant takes as another: the median over rounds, its 95 % interval, the target."""

    what: str
    value: float
    low: float
    high: float
    bar: str  # the target: "<= 1.1", ">= 2", or "" without one
    times: str  # both times as text

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if not self.bar:
            return None
        sign, number = self.bar.split()
        return self.value <= float(number) if sign == "<=" else self.value >= float(number)


def in_turns(
    ways: dict[str, Callable[[], object]], rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each variant in each round, by a clock; a warm-up round before is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            began = clock()
            way()
            if turn:
                seconds[name].append(clock() - began)
    return seconds


def ratio(what: str, long: list[float], short: list[float], bar: str = "", photos: int = 1) -> Ratio:
    """The ratio of two variants in each round. photos: photos in one turn; times are given for one photo."""
    each = np.array(long) / np.array(short)
    low, high = bootstrap_statistic(each, lambda some: float(np.median(some)))
    times = " / ".join(f"{1000 * float(np.median(seconds)) / photos:.3g} ms" for seconds in (long, short))
    return Ratio(what, float(np.median(each)), low, high, bar, times)


def report(ratios: list[Ratio]) -> None:
    """Print all ratios, and write them to the file given after --json."""
    for one in ratios:
        verdict = {None: "", True: f"  (bar {one.bar}: met)", False: f"  (bar {one.bar}: MISSED)"}[one.met]
        print(f"{one.what}: {one.value:.2f} [{one.low:.2f}, {one.high:.2f}], {one.times}{verdict}", flush=True)
    if "--json" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--json") + 1])
        path.write_text(json.dumps([asdict(one) for one in ratios], indent=2) + "\n")
