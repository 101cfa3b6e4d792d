"""A run: its folder, its device, its voice, its company."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.atomic import remove_temporary_files, write_whole
from casmap.io.kept_options import compare_options, read_options
from casmap.models.classifier import find_device
from casmap.reporting import SILENT, Reporter
from casmap.training.distributed import ONE_PROCESS, Processes, agent
from casmap.training.recipes import Recipe

AGENT = "torchrun.txt"  # which torchrun the processes of the run belong to
WARNINGS = ("Warning: ", "could not be read and are left out")  # what a line of run.log has that is one
_CHANGES_NOTHING = {"checkpoint_every", "unreadable"}  # of the result


class Run:
    """The folder of one training run, begun anew or resumed.

    A folder that holds a run is never overwritten, and a run is resumed only with the recipe it was begun with.
    warnings: all that the run has given, before it was resumed, too.
    """

    def __init__(
        self, folder: str | Path, recipe: Recipe, *,
        resume: bool = False, processes: Processes = ONE_PROCESS, reporter: Reporter = SILENT,
    ) -> None:  # fmt: skip
        self.folder, self.recipe, self.processes, self.reporter = Path(folder), recipe, processes, reporter
        self.warnings: list[str] = []
        kept, log = self.folder / "recipe.json", self.folder / "run.log"
        self.resumed = resume and kept.exists()
        if self.resumed:
            then, now = (dict(sorted(vars(one).items())) for one in (kept_recipe(kept), recipe))
            advice = "resume it with the same options"
            compare_options(f"The run in {self.folder}", then, now, advice, ignored=_CHANGES_NOTHING)
            lines = log.read_text().splitlines() if log.exists() else []
            self.warnings += dict.fromkeys(line for line in lines if any(sign in line for sign in WARNINGS))
        elif kept.exists():
            raise UserError(f"{folder} already holds a run: go on with --resume, or choose another --out.")
        self.device = find_device(recipe.device)
        if recipe.threads:
            torch.set_num_threads(recipe.threads)

    @contextmanager
    def begun(self, photos: PhotoSet) -> Iterator[None]:
        """Keep recipe and photos: the folder holds a run now; a mistake before there is anything to keep undoes it."""
        described, kept = describe(photos), self.folder / "photos.json"
        existed = self.folder.is_dir()
        before = set(self.folder.iterdir()) if existed else set()
        if not self.resumed:
            write_whole(self.folder / "recipe.json", self.recipe.to_json())
            write_whole(kept, described)
        elif kept.exists() and kept.read_text() != described:
            raise UserError(f"The run in {self.folder} was begun with other photos: resume it with the same.")
        if self.processes.ranks > 1:
            write_whole(self.folder / AGENT, agent())
        if self.resumed:
            remove_temporary_files(self.folder)
        try:
            yield
        except UserError:
            if not self.resumed and not any(self.folder.glob("*.safetensors")):
                for path in set(self.folder.iterdir()) - before:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                if not existed:
                    self.folder.rmdir()
            raise

    def say(self, sentence: str) -> None:
        """Report a line, and keep it with the run."""
        self.reporter.message(sentence)
        self._keep(sentence)

    def warn(self, sentence: str) -> None:
        """The same for one that should not be overlooked: it is part of the run's result, too."""
        self.reporter.warning(sentence)
        self._keep(sentence)
        self.warnings += [sentence] if sentence not in self.warnings else []

    def _keep(self, sentence: str) -> None:
        with open(self.folder / "run.log", "a") as file:
            file.write(sentence + "\n")

    def seed(self, seed: int, step: int) -> None:
        """Make everything random inside a step (dropout, say) a function of the seed and the step alone."""
        torch.manual_seed(seed * 1_000_003 + step)


def kept_recipe(path: Path) -> Recipe:
    """The recipe that a run was begun with."""
    return Recipe().replace(**read_options(path, "the run cannot be resumed"))


def describe(photos: PhotoSet) -> str:
    """What makes two sets of photos the same for training: their names and classes."""
    names = hashlib.sha256("\n".join(photos.names).encode()).hexdigest()
    return json.dumps({"photos": len(photos), "classes": photos.classes, "names": names}, indent=2)
