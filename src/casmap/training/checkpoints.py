"""Checkpoints, logs and the progress of a training stage that can be stopped and resumed at any step."""

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from casmap.data.batches import Batches
from casmap.errors import UserError
from casmap.io.atomic import own_folder, write_whole
from casmap.io.reading import read_text, reading
from casmap.io.tabular import to_csv
from casmap.models.files import read_tree, write_tree
from casmap.models.network import SaliencyNetwork
from casmap.training.distributed import is_lost
from casmap.training.run import Run

Row = dict[str, float]  # the logged values of one step
TENSORBOARD = "tensorboard"  # folder with a folder for each stage
MAX_LOG = 2**30  # bytes of a log: ten million steps


class Checkpoints:
    """The last two checkpoints: `NAME.safetensors` and, before it, `NAME-before.safetensors`.

    rates: the learning rates to lower if training diverges.
    """

    def __init__(self, folder: Path, name: str, rates: str = "the learning rates") -> None:
        names = (f"{name}{which}.safetensors" for which in ("", "-before", "-next"))
        self.newest, self.before, self._next = map(folder.joinpath, names)
        self.rates = rates

    def write(self, tree: dict[str, Any]) -> None:
        """Write a checkpoint; raises UserError if a tensor contains NaN or Inf, and keeps the earlier checkpoints."""
        if not _finite(tree):
            raise self.diverged(tree["step"], "the weights contain NaN or Inf")
        write_tree(self._next, tree)  # the earlier files stay until this one is complete on disk
        if self.newest.exists():
            os.replace(self.newest, self.before)
        os.replace(self._next, self.newest)

    def read(self, message: Callable[[str], None] = lambda _: None) -> dict[str, Any] | None:
        """Read the newest intact checkpoint; None if there is no checkpoint."""
        damaged: UserError | None = None
        for path in filter(Path.exists, (self.newest, self.before)):
            try:
                tree: dict[str, Any] = read_tree(path)
                if damaged is not None:
                    message(f"{self.newest} is damaged: continuing from {self.before.name}, the checkpoint before it.")
                return tree
            except UserError as error:
                damaged = damaged or error
        if damaged is not None:
            raise self.damaged() from damaged
        return None

    def damaged(self) -> UserError:
        """The error for checkpoints that cannot be used."""
        advice = f"delete it and {self.before.name} to repeat this stage of the run"
        return UserError(f"The checkpoint {self.newest} is damaged: {advice}.")

    def diverged(self, step: int, reason: str) -> UserError:
        """The error for a run that cannot continue."""
        kept = next(filter(Path.exists, (self.newest, self.before)), None)
        last = f"The last good checkpoint is {kept}." if kept else "No checkpoint was written before."
        return UserError(f"Training diverged at step {step}: {reason}. Start a new run and lower {self.rates}. {last}")

    def remove(self) -> None:
        """Delete the files, once the stage is finished."""
        for path in (self.newest, self.before, self._next):
            path.unlink(missing_ok=True)


def _finite(tree: Any) -> bool:
    """Whether no tensor of a tree contains NaN or Inf."""
    if isinstance(tree, Tensor):
        return not tree.is_floating_point() or bool(torch.isfinite(tree).all())
    if isinstance(tree, dict):
        return all(map(_finite, tree.values()))
    return all(map(_finite, tree)) if isinstance(tree, list | tuple) else True


class Log:
    """A CSV file and TensorBoard with one row for each step. Rows after `start`, from a stopped run, are dropped."""

    def __init__(self, folder: Path, name: str, start: int = 0) -> None:
        self.path = folder / f"{name}.csv"
        self.rows = [row for row in read_log(self.path) if row["step"] <= start] if start else []
        self._tensorboard = SummaryWriter(
            str(own_folder(own_folder(folder / TENSORBOARD) / name)), purge_step=start + 1
        )

    def add(self, step: int, **numbers: float) -> None:
        """Add the row of a step; `flush` writes it to disk."""
        self.rows.append({"step": step, **numbers})
        for key, number in numbers.items():
            self._tensorboard.add_scalar(key, number, step)

    def flush(self) -> None:
        """Write the CSV file atomically, with all digits, so that a resumed run reads the same numbers."""
        write_whole(self.path, to_csv(self.rows) if self.rows else "step\n")
        self._tensorboard.flush()

    def close(self) -> None:
        """Write all rows and close TensorBoard."""
        self.flush()
        self._tensorboard.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log file; empty if there is no file."""
    if not path.exists():
        return []
    with reading(path, f"The log {path} is damaged: delete it."):
        rows = csv.DictReader(io.StringIO(read_text(path, MAX_LOG), newline=""))
        if "step" not in (rows.fieldnames or ()):
            raise ValueError("no steps")
        return [{k: int(v) if k == "step" else float(v) for k, v in row.items()} for row in rows]


class _Stateful(Protocol):  # a network, an optimizer, or anything else whose state changes in training
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state_dict: Any) -> Any: ...


class Resumable:
    """A training stage that continues after its last checkpoint.

    checkpoint, log: the names of the files. rates: see `Checkpoints`. parts: everything that later steps depend on, by
    name in the checkpoint; None is stored as None. start: the number of finished steps, whose state the parts have.
    """

    def __init__(self, run: Run, checkpoint: str, log: str, steps: int, rates: str, **parts: _Stateful | None) -> None:
        self.run, self.steps, self.parts = run, steps, parts
        self.checkpoints = Checkpoints(run.folder, checkpoint, rates)
        self.start = self._restore() if run.resumed else 0
        if run.resumed and not self.start and (run.folder / TENSORBOARD / log).exists():  # it had begun
            run.message("The run was stopped before a checkpoint of this stage: it starts again at step 1.")
        self.log = Log(run.folder, log, self.start)

    def run_steps(
        self, label: str, batches: Batches, rows: Iterable[Row], note: Callable[[Row], str], pause: bool = False
    ) -> list[Row]:
        """Run the steps, one for each item of `rows`, with a progress bar, the log and checkpoints; returns all rows.

        batches: the batches of the steps, to name the photos of one whose loss is not finite. note: text for the bar.
        pause: also write a checkpoint after the last step.
        """
        with self.run.reporter.progress(label, self.steps, self.start, lasting=True) as advance:
            for step, row in enumerate(rows, self.start + 1):
                if not math.isfinite(loss := row["loss"] + row.get("score", 0.0)):
                    names = [batches.photos.names[index] for index in batches.indices(step - 1)]
                    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
                    raise self.checkpoints.diverged(step, f"the loss is {loss} in the batch of {names[0]}{others}")
                self.log.add(step, **row)
                advance(note=note(row))
                due = pause if step == self.steps else step % self.run.recipe.checkpoint_every == 0
                if due and self.run.processes.first:
                    self.log.flush()
                    states = {name: None if part is None else part.state_dict() for name, part in self.parts.items()}
                    self.checkpoints.write({"step": step} | states)
        self.log.close()
        return self.log.rows

    def _restore(self) -> int:
        """Restore the parts from the last checkpoint; returns its step, 0 if there is none."""
        state = self.checkpoints.read(self.run.message)
        if state is None:
            return 0
        try:
            step = state["step"]
            if type(step) is not int or not 0 <= step <= self.steps:
                raise ValueError("a step outside of the stage")
            for name, part in self.parts.items():
                if part is not None:
                    if not fits(state[name], part.state_dict()):
                        raise ValueError(f"the state of another {name}")
                    part.load_state_dict(state[name])
        except Exception as error:  # whatever torch raises for the states of a damaged file
            if is_lost(error):  # another process is gone; the checkpoint is intact
                raise
            raise self.checkpoints.damaged() from error
        return step


class StoppedStage(KeyboardInterrupt):
    """Ctrl-C or SIGTERM in a stage.

    network: the mapping so far; size: of its images; steps: taken in this stage; resumable: whether the stage has a
    checkpoint, from which it continues.
    """

    def __init__(self, network: SaliencyNetwork, size: int, steps: int, resumable: bool) -> None:
        super().__init__()
        self.network, self.size, self.steps, self.resumable = network, size, steps, resumable


@contextmanager
def left_if_stopped(stage: Resumable, network: Callable[[], SaliencyNetwork], size: int) -> Iterator[None]:
    """If the stage is stopped after its first step, raise StoppedStage with the mapping that it has learned so far."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if not stage.log.rows:
            raise
        resumable = stage.checkpoints.newest.exists()
        raise StoppedStage(network(), size, int(stage.log.rows[-1]["step"]), resumable) from stop


def fits(saved: Any, now: Any) -> bool:
    """Whether a saved state has the structure of the present one, so that training can go on with it.

    torch itself checks the weights of networks, but loads any state into an optimizer and fails in a later step.

    >>> fits({"lr": 0.1, "betas": [0.9, 0.99]}, {"lr": 0.2, "betas": (0.9, 0.999)}), fits({"lr": "x"}, {"lr": 0.2})
    (True, False)
    """
    if isinstance(now, dict) and now.keys() == {"state", "param_groups"}:  # an optimizer
        return fits(saved["param_groups"], now["param_groups"]) and _moments_fit(saved["state"])
    if isinstance(now, Tensor):
        return isinstance(saved, Tensor) and saved.shape == now.shape
    if isinstance(now, dict):
        old = {key for key, value in now.items() if isinstance(value, bool | None)}  # flags that torch adds with time
        same = isinstance(saved, dict) and now.keys() - old <= saved.keys()
        return same and all(fits(saved[key], value) for key, value in now.items() if key in saved)
    if isinstance(now, list | tuple):
        alike = zip(saved, now, strict=False) if isinstance(saved, list | tuple) else ()
        return isinstance(saved, list | tuple) and all(fits(one, other) for one, other in alike)
    if isinstance(now, bool) or now is None:
        return saved is None or isinstance(saved, bool | float | int | Tensor | dict)
    return type(saved) in ((int,) if isinstance(now, int) else (int, float)) and abs(saved) < 1e30


def _moments_fit(state: Any) -> bool:
    """Whether the running means of an optimizer are tensors, the same ones for each parameter."""
    kinds = {tuple(one) for one in state.values()}
    return len(kinds) <= 1 and all(isinstance(v, Tensor | None) for one in state.values() for v in one.values())
