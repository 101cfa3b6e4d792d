"""A training that can be stopped at any step: its log, its checkpoints, its progress bar."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from casmap.data.batches import Batches
from casmap.errors import UserError
from casmap.training.checkpoints import Checkpoints
from casmap.training.distributed import is_lost
from casmap.training.log import Log
from casmap.training.run import Run

Row = dict[str, float]  # what one step tells the log


class _Stateful(Protocol):  # a network, an optimiser, or whatever else changes in training
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state_dict: Any) -> Any: ...


class Resumable:
    """Steps of which some may be done already.

    checkpoint, log: how their files are called. parts: all that the steps to come depend on, by their names in a
    checkpoint; None is kept as such. start: how many steps are done; the parts are as they were then.
    """

    def __init__(
        self, run: Run, *, checkpoint: str, log: str, steps: int, parts: Mapping[str, _Stateful | None]
    ) -> None:
        self.run, self.steps, self.parts = run, steps, parts
        self.checkpoints = Checkpoints(run.folder, checkpoint)
        self.start = self._restore() if run.resumed else 0
        self.log = Log(run.folder, log, self.start)

    def follow(self, label: str, batches: Batches, rows: Iterable[Row], note: Callable[[Row], str]) -> list[Row]:
        """Take the steps that `rows` makes, one for each row; returns the rows of all steps, earlier ones too.

        batches: those that the steps see, to name one that gives no number. note: beside the progress bar.
        """
        with self.run.reporter.progress(label, self.steps, self.start, lasting=True) as advance:
            for step, row in enumerate(rows, self.start + 1):
                self._check_finite(row["loss"] + row.get("score", 0.0), step, batches)
                self.log.add(step, **row)
                advance(note=note(row))
                if step % self.run.recipe.checkpoint_every == 0 and step < self.steps and self.run.processes.first:
                    self.log.flush()
                    self.checkpoints.write({"step": step} | {name: _state(part) for name, part in self.parts.items()})
        self.log.close()
        return self.log.rows

    def _restore(self) -> int:
        """Put the parts back to where the last checkpoint was written; returns its step, 0 where there is none."""
        kept = self.checkpoints.read(self.run.say)
        if kept is None:
            return 0
        try:
            for name, part in self.parts.items():
                if part is not None:
                    part.load_state_dict(kept[name])
            return int(kept["step"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            if is_lost(error):  # nothing is wrong with the checkpoint
                raise
            newest = self.checkpoints.newest
            raise UserError(f"{newest} is a damaged checkpoint; without it the run begins anew.") from error

    def _check_finite(self, loss: float, step: int, batches: Batches) -> None:
        """Stop where a loss is no number: nothing that is learned from it would be one."""
        if math.isfinite(loss):
            return
        names = [batches.photos.names[index] for index in batches.indices(step - 1)]
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise UserError(
            f"The loss is {loss} at step {step}, in the batch of {names[0]}{others}: stopped. "
            f"{self.checkpoints.where()} A new run with smaller learning rates may go further."
        )


def _state(part: _Stateful | None) -> Any:
    return None if part is None else part.state_dict()
