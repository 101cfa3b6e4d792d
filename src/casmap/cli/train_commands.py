"""`casmap train` and `casmap classifier`."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from casmap.cli.console import complain, console, if_stopped, reporter
from casmap.cli.options import Data, Out, RecipeName, Resume, Split, with_recipe_options
from casmap.cli.tables import print_training

FAILED = 3  # exit code of a training whose masks are useless
# A run with steps of Algorithm 1, and one that started from masks which are there already.
ADVICE = "Train for longer (--steps), set --area to the share that objects cover, or add photos."
ADVICE_WITHOUT_STEPS = (
    "Run casmap check with the shipped mapping (without --mapping): if its verdict is good, use that one. For images "
    "unlike photos, try --recipe scans."
)

Labels = Annotated[
    Path | None, typer.Option(help="annotations that give the classes of photos that are in no class folder")
]
OldLabels = Annotated[Path | None, typer.Option("--boxes", hidden=True, help="the name of --labels in casmap 0.1.0")]


def how_to_continue(run: Path) -> str:
    """What a stopped run says: whether there is something to resume."""
    if not (run / "recipe.json").exists():
        return "Stopped before the first checkpoint: nothing was kept. Run the same command to start again."
    if not any(run.glob("*checkpoint*.safetensors")):
        return "Stopped. There is no checkpoint yet: with --resume the run starts again, from f(0) if that is finished."
    return "Stopped. To continue from the last checkpoint, run the same command with --resume."


@with_recipe_options
def train(
    data: Data, out: Out = Path("runs/casm"), recipe: RecipeName = None,
    classifier: Annotated[
        str | None,
        typer.Option(help="f(0), the initial classifier: a file that casmap wrote, or weights of the backbone"),
    ] = None,
    resume: Resume = False, labels: Labels = None, boxes: OldLabels = None, split: Split = None,
    minutes: Annotated[
        float | None, typer.Option(help="choose sizes, steps and stages that fit into this time (default: 20 or 30)")
    ] = None,
    changes: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Train a mapping on photos with class labels. Unset options are chosen automatically, printed, and saved."""
    begun = time.monotonic()  # the imports take seconds, too
    from casmap.training import start

    with if_stopped(partial(how_to_continue, out)):
        trained = start.train(
            data, out=out, recipe=recipe, classifier=classifier, resume=resume, labels=labels or boxes, split=split,
            minutes=minutes, reporter=reporter, **changes or {},
        )  # fmt: skip
    print_training(trained, time.monotonic() - begun)
    if trained.verdict == "failed":
        following = ADVICE if trained.steps else ADVICE_WITHOUT_STEPS
        complain(f"The training failed: do not use this mapping. {following}")
        if "TORCHELASTIC_RUN_ID" not in os.environ:  # torchrun would start a process again that exits with an error
            raise typer.Exit(FAILED)


@with_recipe_options
def classifier(
    data: Data, out: Out = Path("runs/classifier"), recipe: RecipeName = None, resume: Resume = False,
    labels: Labels = None, boxes: OldLabels = None, split: Split = None, changes: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Train only the initial classifier f(0), for `train --classifier` or `study figure3 --classifier`."""
    from casmap.training import start

    with if_stopped(partial(how_to_continue, out)):
        trained = start.train_classifier(
            data, out=out, recipe=recipe, resume=resume, labels=labels or boxes, split=split, reporter=reporter,
            **changes or {},
        )  # fmt: skip
    console.print(f"\nClassifier: {trained.classifier}", soft_wrap=True)
