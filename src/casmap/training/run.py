"""A training run: its folder, its device, its messages and its processes."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from casmap.data.photos import PhotoSet
from casmap.errors import UserError, option
from casmap.io.atomic import append, remove_temporary_files, write_whole
from casmap.io.kept_options import compare_options, read_options
from casmap.io.lock import locked
from casmap.io.names import escaped
from casmap.io.reading import MAX_OPTIONS, read_text, reading
from casmap.models.classifier import find_device
from casmap.reporting import SILENT, Reporter
from casmap.training.distributed import ONE_PROCESS, Processes, torchrun_id
from casmap.training.recipes import Recipe

TORCHRUN = "torchrun.txt"  # identifies the torchrun that the processes of the run belong to
WARNING = "Warning: "
WARNINGS = (WARNING, "could not be read and are left out")  # marks of warnings in run.log; the second is of 0.1.0
_NO_EFFECT_ON_RESULT = {"checkpoint_every", "unreadable"}


class Run:
    """The folder of one training run, new or resumed.

    A folder that holds a run is never overwritten, and a run is resumed only with the recipe it was started with.
    warnings: all warnings of the run, including those from before it was resumed. estimate: its duration in seconds, as
    announced before it started; None if it was resumed.
    """

    def __init__(
        self, folder: str | Path, recipe: Recipe, *,
        resume: bool = False, processes: Processes = ONE_PROCESS, reporter: Reporter = SILENT,
    ) -> None:  # fmt: skip
        self.folder, self.recipe, self.processes, self.reporter = Path(folder), recipe, processes, reporter
        self.warnings: list[str] = []
        self.estimate: float | None = None
        saved, log = self.folder / "recipe.json", self.folder / "run.log"
        self.resumed = resume and saved.exists()
        if self.resumed:
            before, now = (dict(sorted(vars(one).items())) for one in (saved_recipe(saved), recipe))
            advice = "resume it with the same options"
            compare_options(f"The run in {self.folder}", before, now, advice, ignored=_NO_EFFECT_ON_RESULT)
            with reading(log):
                lines = read_text(log, MAX_OPTIONS, errors="replace").splitlines() if log.exists() else []
            self.warnings += dict.fromkeys(line for line in lines if any(mark in line for mark in WARNINGS))
        elif saved.exists():
            raise holds_run(self.folder)
        self.device = find_device(recipe.device)
        if recipe.threads:
            torch.set_num_threads(recipe.threads)

    @contextmanager
    def started(self, photos: PhotoSet) -> Iterator[None]:
        """Write the recipe and the photos' names; if the run ends before anything is trained, remove them again.

        So after a UserError or Ctrl-C the same command starts the run again.
        """
        description, saved = describe(photos), self.folder / "photos.json"
        with locked(self.folder, self.reporter):
            before = set(self.folder.iterdir())
            if not self.resumed:
                if (self.folder / "recipe.json").exists():  # another process started a run here meanwhile
                    raise UserError(f"Another process has just written a run to {self.folder}: run the command again.")
                write_whole(self.folder / "recipe.json", json.dumps(self.recipe.options(), indent=2))
                write_whole(saved, description)
            elif saved.exists() and saved.read_bytes() != description.encode():
                raise UserError(
                    f"The run in {self.folder} was started with other photos: resume it with the same photos."
                )
            if self.processes.ranks > 1:
                write_whole(self.folder / TORCHRUN, torchrun_id())
            if self.resumed:
                remove_temporary_files(self.folder)
            try:
                yield
            except (UserError, KeyboardInterrupt):
                if not self.resumed and not any(self.folder.glob("*.safetensors")):
                    for path in set(self.folder.iterdir()) - before:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                raise

    def message(self, text: str) -> None:
        """Report a line and write it to run.log."""
        self.reporter.message(text)
        self._log(text)

    def warning(self, text: str) -> None:
        """Report a warning, write it to run.log and add it to the run's result."""
        text = WARNING + text.removeprefix(WARNING)
        self.reporter.warning(text)
        self._log(text)
        self.warnings += [text] if text not in self.warnings else []

    def _log(self, text: str) -> None:
        append(self.folder / "run.log", escaped(text) + "\n")

    def seed(self, step: int) -> None:
        """Make all randomness inside a step (such as dropout) depend only on the recipe's seed and the step."""
        torch.manual_seed(self.recipe.seed * 1_000_003 + step)


def holds_run(folder: Path) -> UserError:
    """The error for a new run in the folder of another one."""
    resume, out = option("resume", True), option("out")
    return UserError(f"{folder} already holds a run: continue it with {resume}, or choose another folder ({out}).")


def saved_recipe(path: Path) -> Recipe:
    """The recipe that a run was started with."""
    return Recipe().replace(**read_options(path, "the run cannot be resumed"))


def describe(photos: PhotoSet) -> str:
    """A description that is the same for the same photos with the same classes."""
    names = hashlib.sha256(os.fsencode("\n".join(photos.names))).hexdigest()
    return json.dumps({"photos": len(photos), "classes": photos.classes, "names": names}, indent=2)
