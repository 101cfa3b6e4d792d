"""Snapshots of Algorithm 1: the mappings of one run after several numbers of steps.

The learning rates of such a run are constant and it has no last step, so a run of N steps is the beginning of every
longer one: a further snapshot continues the run and repeats nothing.
"""

from pathlib import Path

from casmap.data.photos import PhotoSet
from casmap.errors import UserError, option
from casmap.training.checkpoints import read_log
from casmap.training.first_classifier import first_classifier
from casmap.training.held_out import SO_FAR, so_far_if_stopped
from casmap.training.loop import run_algorithm1, warn_of_skipped
from casmap.training.recipes import Recipe
from casmap.training.run import Run

NO_END = 10**9  # steps: the largest number that a recipe accepts


def without_end(recipe: Recipe) -> Recipe:
    """The recipe of a run that can always be continued: constant learning rates, no last step, no second stage.

    >>> without_end(Recipe()).drop_every
    1.0
    """
    return recipe.replace(steps=NO_END, drop_every=1.0, second_stage_steps=0)


def snapshot_file(folder: Path, steps: int) -> Path:
    """The mapping file of the snapshot after so many steps."""
    return folder / f"mapping-{steps}.safetensors"


def train_snapshot(photos: PhotoSet, run: Run, classifier: str, steps: int) -> Path:
    """Continue a run, whose recipe is `without_end`, to this step, and write its mapping; returns the file.

    The batch-norm statistics of the mapping are computed anew on clean photos; the run itself keeps its own.
    """
    path = snapshot_file(run.folder, steps)
    with run.started(photos), so_far_if_stopped(run, photos, None):
        if not (run.resumed and path.exists()):
            reached = max((row["step"] for row in read_log(run.folder / "log.csv")), default=0)
            if reached > steps:
                raise UserError(
                    f"The run in {run.folder} is at step {reached:,} and has no snapshot of step {steps:,}: leave out "
                    f"that snapshot, or choose another folder ({option('out')})."
                )
            first, origin = first_classifier(photos, run, classifier)
            run_algorithm1(photos, run, first, origin, path, until=steps)
            (run.folder / SO_FAR).unlink(missing_ok=True)
        warn_of_skipped(photos, run)
    return path
