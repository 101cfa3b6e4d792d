"""`casmap study`: the tables and figures of the paper, and further studies."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from casmap.baselines import BASELINES
from casmap.cli.console import console, if_stopped, reporter
from casmap.cli.options import Boxes, Data, Mappings, Masks, Out, Split
from casmap.cli.tables import print_plan, print_report, show_outcome

if TYPE_CHECKING:
    from casmap.paper.plan import Experiment

study = typer.Typer(help="Repeat the experiments of the paper.", no_args_is_help=True)

STUDIES = Path("runs/studies")
Studies = Annotated[Path, typer.Option("--out", help="folder of all studies, which share their trainings")]
Given = Annotated[
    list[Path] | None, typer.Option("--mapping", help="mapping to use; repeat for several (default: train them)")
]
Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--classifier", help="a classifier file from casmap, a backbone, or BACKBONE=FILE; repeat for several"
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only print the cost: runs, steps, disk, memory")]


@contextmanager
def studying(folder: Path) -> Iterator[None]:
    """Hold the lock of a study's folder, and say how to continue if the study is stopped."""
    from casmap.io.lock import locked

    sentence = f"Stopped: the finished parts are in {folder}; run the same command to continue."
    with locked(folder, reporter), if_stopped(sentence):
        yield


@study.command()
def evidence(
    out: Out = Path("runs/evidence"),
    seeds: Annotated[
        list[int] | None,
        typer.Option(help="random seed of scenes and training; repeat for several (default: 1, 2, 3)"),
    ] = None,
) -> None:
    """Compare the evidence in the masks of CASM and Baseline on scenes, at equal area."""
    from casmap.paper.scenes_evidence import run_evidence

    with studying(out):
        show_outcome(run_evidence(out=out, seeds=seeds or [1, 2, 3], reporter=reporter), out)


@study.command()
def twins(out: Out = Path("runs/twins"), seed: Annotated[int, typer.Option(min=0, help="random seed")] = 1) -> None:
    """Run the example of the paper: f(0) uses one half only; measure the evidence found in the other half."""
    from casmap.paper.twins import run_twins

    with studying(out):
        show_outcome(run_twins(out=out, seed=seed, reporter=reporter), out)


@study.command("table1")
def study_table1(
    data: Data,
    mapping: Mappings = None,
    classifier: Annotated[
        str, typer.Option(help="classifier that the baselines explain: a file from casmap, or a backbone")
    ] = "lite0",
    out: Out = STUDIES / "table1", boxes: Boxes = None, masks: Masks = None, split: Split = None,
    size: Annotated[int, typer.Option(min=32, help="side of the input, in pixels")] = 224,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="the classifier may not know the classes: use the predicted class only")
    ] = False,
    train: Annotated[str | None, typer.Option(help="photos of the same classes to train baselines on")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="folder with u2net.onnx and u2netp.onnx, for the baselines of these names")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"only this baseline; repeat for several: {', '.join(BASELINES)}")
    ] = None,
    few: Annotated[
        int, typer.Option(min=1, help="photos for slow baselines (seconds per photo); fewer for the slowest")
    ] = 100,
    fidelity: Annotated[
        str | None,
        typer.Option(
            metavar="CLASSIFIER", help="also measure the fidelity of all maps to this classifier, named as --classifier"
        ),
    ] = None,
) -> None:  # fmt: skip
    """Compare mappings with the baselines of Table 1 on one classifier.

    Run the command again to continue an interrupted study.
    """
    from casmap.inference.mapper import SHIPPED
    from casmap.paper.table1 import run_table1

    with studying(out):
        outcome = run_table1(
            data, mappings=mapping or [SHIPPED], classifier=classifier, out=out, boxes=boxes, masks=masks, split=split,
            size=size, unseen=unseen, train=train, weights=weights, only=only or (), few=few,
            fidelity=fidelity, reporter=reporter,
        )  # fmt: skip
        show_outcome(outcome, out)


def shared_options(
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="photos to train on: a folder of photos, or scenes[:options] (default)"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="scenes and a small backbone (default)")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="the setting of the paper: ImageNet, ResNet-50")] = False,
    recipe: Annotated[str | None, typer.Option(help="recipe: a name, or a TOML or YAML file")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="random seed")] = None,
    test: Annotated[str | None, typer.Option(help="photos to measure on (default: held-out photos of DATA)")] = None,
    boxes: Boxes = None, masks: Masks = None, split: Split = None, out: Studies = STUDIES, dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Hold the options of all studies that train."""


def trains(command: Callable[..., None]) -> None:
    """Register `study NAME` for a function NAME with the study's own options and help; the study is casmap.paper.NAME.

    The own options are listed before the last two shared ones.
    """
    name = command.__name__
    shared, own = (list(inspect.signature(f).parameters.values()) for f in (shared_options, command))

    @functools.wraps(command)
    def conduct(*, out: Path, dry_run: bool, **given: Any) -> None:
        from casmap.paper.setting import NOWHERE, count_photos, find_setting

        experiment: Experiment = import_module(f"casmap.paper.{name}").STUDY
        options = {p.name: given.pop(p.name) for p in own}
        if dry_run and given["paper"] and given["data"] is None:
            given["data"] = NOWHERE
        setting = find_setting(given.pop("data"), **given)
        if not dry_run:
            with studying(out / name):
                return show_outcome(experiment.run(setting, out=out, reporter=reporter, **options), out / name)
        if planned := experiment.plan(setting, *count_photos(setting), **options):
            print_plan(planned)
        else:
            console.print("No training is needed.")
        if fetched := experiment.fetched(setting, **options):
            console.print(f"Downloads the weights of: {', '.join(fetched)}.", soft_wrap=True)

    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in (*shared[:-2], *own, *shared[-2:])]
    conduct.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    conduct.__annotations__ = {p.name: p.annotation for p in parameters}
    study.command(name)(conduct)


@trains
def table2() -> None:
    """Train the eleven rows of Table 2 (score, encoder, thinning) and measure OM, LE and F1."""


@trains
def table3() -> None:
    """Table 3: train on some classes and measure on the others."""


@trains
def seeds(
    each: Annotated[
        int, typer.Option("--trainings", min=2, help="trainings of CASM and of Baseline, each with its own seed")
    ] = 5,
) -> None:
    """Train CASM and Baseline with several seeds: mean, best and worst LE, and a significance test."""


@trains
def fewshot() -> None:
    """Train on 1, 3, 10, 30 and all photos of each class and plot LE against photos per class."""


@trains
def length(
    snapshots: Annotated[
        list[int] | None,
        typer.Option(
            "--snapshot", min=1, help="measure after this many steps; repeat for several (default: 100, 300, 1000)"
        ),
    ] = None,
    thinnings: Annotated[
        list[str] | None, typer.Option("--thinning", help="thinning; repeat for several (default: F, L100, L)")
    ] = None,
    classifiers: Judges = None,
    recipe_score: Annotated[
        bool, typer.Option("--recipe-score", help="the recipe's score, masked-in term and encoder, not the paper's")
    ] = False,
    erase: Annotated[str | None, typer.Option(help="pixels or features (default: the recipe's)")] = None,
    size: Annotated[
        int | None, typer.Option(min=32, help="side of the images, in pixels (default: the recipe's)")
    ] = None,
    each: Annotated[int, typer.Option("--trainings", min=1, help="trainings of each thinning, each its own seed")] = 1,
) -> None:
    """Measure F (Baseline), L100 (CASM) and L after more and more steps of training.

    A further --snapshot continues the same runs.
    """


@trains
def statistics(mappings: Given = None) -> None:
    """Measure total variation, entropy and spread of the masks of mappings."""


@study.command()
def figure1(
    backbone: Annotated[str, typer.Option(help="backbone: a timm name, lite0, or torchvision/NAME")] = "resnet50",
    classes: Annotated[int, typer.Option(min=2, help="number of classes")] = 1000,
    size: Annotated[int, typer.Option(min=32, help="side of the input, in pixels")] = 224,
    out: Studies = STUDIES,
) -> None:
    """Figure 1: draw the architecture of a model, with layers, sizes and the training-only pass."""
    from casmap.paper.figure1 import run_figure1

    with studying(out / "figure1"):
        show_outcome(run_figure1(backbone=backbone, classes=classes, size=size, out=out), out / "figure1")


@trains
def figure2(
    mappings: Given = None,
    of_classes: Annotated[
        int | None,
        typer.Option("--classes", min=1, help="show one photo each of this many random classes (supplement: 16)"),
    ] = None,
) -> None:
    """Figure 2: show seven consecutive photos masked in, masked out and inpainted, for several mappings."""


@trains
def figure3(
    mappings: Given = None,
    classifiers: Judges = None,
) -> None:
    """Figure 3: measure many classifiers on photos masked in, masked out and inpainted."""


@study.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="the --out folder of the studies")] = STUDIES,
) -> None:
    """Summarise all studies of a folder on one page: which conclusions of the paper hold."""
    from casmap.paper.report import run_report

    print_report(run_report(folder))
