"""The last two states of a training: one is always whole, whatever happens while the other is written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from casmap.errors import UserError
from casmap.models.files import read_tree, write_tree


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
        self.newest, self.before, self._next = (
            folder / f"{name}{which}.safetensors" for which in ("", "-before", "-next")
        )

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
        for path in (self.newest, self.before):
            if not path.exists():
                continue
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
        kept = next((path for path in (self.newest, self.before) if path.exists()), None)
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
