"""A study that trains: what it would take, and how it is run. Each is named as its module, which has it as STUDY."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from casmap.paper.outcome import Outcome
from casmap.paper.plan import Planned


def _nothing(*_: Any, **__: Any) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """Options are the study's own, as the command line has them.

    run(setting, *, out, reporter, **options): conduct it. plan(setting, photos, classes, **options): what it trains on
    so many photos. fetched(setting, **options): classifiers whose weights it takes from elsewhere.
    """

    run: Callable[..., Outcome]
    plan: Callable[..., list[Planned]]
    fetched: Callable[..., Sequence[str]] = _nothing
