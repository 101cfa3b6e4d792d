"""A run: its folder, its device, its voice, its company."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.atomic import remove_asides, write_whole
from casmap.models.device import find_device
from casmap.reporting import SILENT, Reporter
from casmap.training.distributed import ALONE, Together, agent, is_lost
from casmap.training.recipes import Recipe

AGENT = "torchrun.txt"  # which torchrun the processes of the run belong to
_CHANGES_NOTHING = {"checkpoint_every", "unreadable"}  # of the result


class Run:
    """The folder of one training run, begun anew or resumed.

    A folder that holds a run is never overwritten, and a run is resumed only with the recipe it was begun with.
    """

    def __init__(
        self,
        folder: str | Path,
        recipe: Recipe,
        resume: bool = False,
        console: Console | None = None,
        together: Together = ALONE,
        reporter: Reporter = SILENT,
    ) -> None:
        self.folder, self.recipe, self.together, self.reporter = Path(folder), recipe, together, reporter
        self.console = console or Console(quiet=True)
        kept = self.folder / "recipe.json"
        self.resumed = resume and kept.exists()
        if self.resumed:
            self._compare(kept_recipe(kept))
        elif kept.exists():
            raise UserError(f"{folder} already holds a run: go on with --resume, or choose another --out.")
        self.device = find_device(recipe.device)
        if recipe.threads:
            torch.set_num_threads(recipe.threads)

    @contextmanager
    def begun(self, photos: PhotoSet) -> Iterator[None]:
        """Keep recipe and photos: the folder holds a run now; a mistake before there is anything to keep undoes it."""
        described = describe(photos)
        kept = self.folder / "photos.json"
        before = set(self.folder.iterdir()) if self.folder.is_dir() else set()
        existed = self.folder.is_dir()
        if not self.resumed:
            write_whole(self.folder / "recipe.json", self.recipe.to_json())
            write_whole(kept, described)
        elif kept.exists() and kept.read_text() != described:
            raise UserError(f"The run in {self.folder} was begun with other photos: resume it with the same.")
        if self.together.ranks > 1:
            write_whole(self.folder / AGENT, agent())
        if self.resumed:
            remove_asides(self.folder)
        try:
            yield
        except UserError:
            if not self.resumed and not any(self.folder.glob("*.safetensors")):
                self._undo(before, existed)
            raise

    def _undo(self, before: set[Path], existed: bool) -> None:
        for path in set(self.folder.iterdir()) - before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not existed:
            self.folder.rmdir()

    def say(self, sentence: str) -> None:
        """Print a line, and keep it with the run."""
        self.reporter.message(sentence)
        self.console.print(sentence, soft_wrap=True)
        with open(self.folder / "run.log", "a") as file:
            file.write(sentence + "\n")

    def seed(self, seed: int, step: int) -> None:
        """Make everything random inside a step (dropout, say) a function of the seed and the step alone."""
        torch.manual_seed(seed * 1_000_003 + step)

    @contextmanager
    def progress(self, what: str, start: int, total: int) -> Iterator[Callable[[str], None]]:
        """Show a bar while the block runs; the block calls what it is given, with a short text, at each step."""
        if self.reporter is not SILENT:
            with self.reporter.progress(what, total, start, lasting=True) as advance:
                yield lambda note: advance(note=note)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task(what, total=total, completed=start, note="")
            yield lambda note: bar.update(task, advance=1, note=note)

    def _compare(self, kept: Recipe) -> None:
        for name in sorted(vars(kept).keys() - _CHANGES_NOTHING):
            then, now = getattr(kept, name), getattr(self.recipe, name)
            if then != now:
                raise UserError(
                    f"The run in {self.folder} was begun with {name} = {then!r}, not {now!r}: "
                    "resume it with the same options."
                )


@contextmanager
def undamaged(checkpoint: Path) -> Iterator[None]:
    """Take what a checkpoint holds: what does not fit makes one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if is_lost(error):  # nothing is wrong with the checkpoint
            raise
        raise UserError(f"{checkpoint} is a damaged checkpoint; without it the run begins anew.") from error


def kept_recipe(path: Path) -> Recipe:
    """The recipe that a run was begun with."""
    try:
        return Recipe().replace(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged: the run cannot be resumed.") from error


def describe(photos: PhotoSet) -> str:
    """What makes two sets of photos the same for training: their names and classes."""
    names = hashlib.sha256("\n".join(photos.names).encode()).hexdigest()
    return json.dumps({"photos": len(photos), "classes": photos.classes, "names": names}, indent=2)
