"""A training that can be stopped at any step: its log, its progress bar, and its last two states, one always whole."""

import csv
import io
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from casmap.data.batches import Batches
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.models.files import read_tree, write_tree
from casmap.training.distributed import is_lost
from casmap.training.run import Run

Row = dict[str, float]  # what one step tells the log


class Checkpoints:
    """`NAME.safetensors`, and `NAME-before.safetensors`, the one before it.

    >>> import tempfile
    >>> kept = Checkpoints(Path(tempfile.mkdtemp()), "checkpoint")
    >>> for step in 1, 2, 3:
    ...     kept.write({"step": step, "weights": torch.zeros(2)})
    >>> sorted(path.name for path in kept.newest.parent.iterdir()), kept.read()["step"]
    (['checkpoint-before.safetensors', 'checkpoint.safetensors'], 3)
    """

    def __init__(self, folder: Path, name: str) -> None:
        names = (f"{name}{which}.safetensors" for which in ("", "-before", "-next"))
        self.newest, self.before, self._next = map(folder.joinpath, names)

    def write(self, tree: dict[str, Any]) -> None:
        """Keep a state. One with a number that is none is refused: whoever went on from it would find nothing else."""
        if not _finite(tree):
            raise UserError(f"The weights are no numbers any more at step {tree['step']}: stopped. {self.where()}")
        write_tree(self._next, tree)  # the others stay as they are until all of it is on the disk
        if self.newest.exists():
            os.replace(self.newest, self.before)
        os.replace(self._next, self.newest)

    def read(self, say: Callable[[str], None] = lambda _: None) -> dict[str, Any] | None:
        """The newest state that can be read; None where none was kept."""
        damaged: UserError | None = None
        for path in filter(Path.exists, (self.newest, self.before)):
            try:
                tree: dict[str, Any] = read_tree(path)
                if damaged is not None:
                    say(f"{self.newest} is damaged: going on from the one before it.")
                return tree
            except UserError as error:
                damaged = damaged or error
        if damaged is not None:
            raise UserError(f"{self.newest} is a damaged checkpoint; without it the run begins anew.") from damaged
        return None

    def where(self) -> str:
        """A sentence that names the last good one."""
        kept = next(filter(Path.exists, (self.newest, self.before)), None)
        return f"The last good checkpoint is {kept}." if kept else "No checkpoint was written before."

    def remove(self) -> None:
        """What is finished needs none."""
        for path in (self.newest, self.before, self._next):
            path.unlink(missing_ok=True)


def _finite(tree: Any) -> bool:
    """Whether all tensors of a tree hold numbers."""
    if isinstance(tree, Tensor):
        return not tree.is_floating_point() or bool(torch.isfinite(tree).all())
    if isinstance(tree, dict):
        return all(map(_finite, tree.values()))
    return all(map(_finite, tree)) if isinstance(tree, list | tuple) else True


class Log:
    """A CSV file and TensorBoard, a row for each step. Rows after `start`, of a run that was stopped, are dropped."""

    def __init__(self, folder: Path, name: str, start: int = 0) -> None:
        self.path = folder / f"{name}.csv"
        self.rows = [row for row in read_log(self.path) if row["step"] <= start] if start else []
        self._tensorboard = SummaryWriter(str(folder / "tensorboard" / name), purge_step=start + 1)

    def add(self, step: int, **numbers: float) -> None:
        """Note the numbers of a step; the file on disk follows with `flush`."""
        self.rows.append({"step": step, **numbers})
        for key, number in numbers.items():
            self._tensorboard.add_scalar(key, number, step)

    def flush(self) -> None:
        """Write the CSV file, whole, and numbers with all their digits: a resumed run goes on from them."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.rows[0] if self.rows else ["step"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: repr(v) if isinstance(v, float) else v for k, v in row.items()} for row in self.rows)
        write_whole(self.path, text.getvalue())
        self._tensorboard.flush()

    def close(self) -> None:
        """Write all that is left."""
        self.flush()
        self._tensorboard.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log file; none where there is no file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [{k: int(v) if k == "step" else float(v) for k, v in row.items()} for row in csv.DictReader(file)]


class _Stateful(Protocol):  # a network, an optimiser, or whatever else changes in training
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state_dict: Any) -> Any: ...


class Resumable:
    """Steps of which some may be done already.

    checkpoint, log: how their files are called. parts: all that the steps to come depend on, by their names in a
    checkpoint; None is kept as such. start: how many steps are done; the parts are as they were then.
    """

    def __init__(self, run: Run, checkpoint: str, log: str, steps: int, **parts: _Stateful | None) -> None:
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
                if not math.isfinite(loss := row["loss"] + row.get("score", 0.0)):  # nor is what is learned from it
                    names = [batches.photos.names[index] for index in batches.indices(step - 1)]
                    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
                    raise UserError(
                        f"The loss is {loss} at step {step}, in the batch of {names[0]}{others}: stopped. "
                        f"{self.checkpoints.where()} A new run with smaller learning rates may go further."
                    )
                self.log.add(step, **row)
                advance(note=note(row))
                if step % self.run.recipe.checkpoint_every == 0 and step < self.steps and self.run.processes.first:
                    self.log.flush()
                    states = {name: None if part is None else part.state_dict() for name, part in self.parts.items()}
                    self.checkpoints.write({"step": step} | states)
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
