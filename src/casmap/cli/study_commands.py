"""The command line's studies: `casmap study NAME`."""

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from casmap.baselines import BASELINES
from casmap.cli.console import console, reporter
from casmap.cli.options import Boxes, Data, Mappings, Masks, Out, Split
from casmap.cli.tables import print_plan, print_report, show_outcome

if TYPE_CHECKING:
    from casmap.paper.plan import Experiment

study = typer.Typer(help="Measure what the paper claims.", no_args_is_help=True)

STUDIES = Path("runs/studies")
Studies = Annotated[Path, typer.Option("--out", help="folder of all studies; trainings in it are shared among them")]
Looked = Annotated[
    list[Path] | None, typer.Option("--mapping", help="look at this one; several may be given (default: train them)")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say only what it would take: runs, steps, disk, memory")]


@study.command()
def evidence(
    out: Out = Path("runs/evidence"),
    seeds: Annotated[list[int] | None, typer.Option(help="which seeds, each a set of scenes and a training")] = None,
) -> None:
    """Measure on scenes, at equal area, whether CASM's masks hold more of the evidence than Baseline's."""
    from casmap.paper.scenes_evidence import run_evidence

    show_outcome(run_evidence(out=out, seeds=seeds or [1, 2, 3], reporter=reporter), out)


@study.command()
def twins(
    out: Out = Path("runs/twins"), seed: Annotated[int, typer.Option(min=0, help="of scenes and training")] = 1
) -> None:
    """Run the paper's example: f(0) looks at one half only; who finds the other half's evidence."""
    from casmap.paper.twins import run_twins

    show_outcome(run_twins(out=out, seed=seed, reporter=reporter), out)


@study.command("table1")
def study_table1(
    data: Data,
    mapping: Mappings = None,
    classifier: Annotated[
        str, typer.Option(help="what baselines explain: a classifier casmap wrote, or a backbone's name")
    ] = "lite0",
    out: Out = STUDIES / "table1", boxes: Boxes = None, masks: Masks = None, split: Split = None,
    size: Annotated[int, typer.Option(min=32, help="side of the pictures")] = 224,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="the photos' classes may be new to the classifier: predicted class only")
    ] = False,
    train: Annotated[str | None, typer.Option(help="photos of the same classes, for the baselines that learn")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"this baseline only; may be given several times: {', '.join(BASELINES)}")
    ] = None,
    few: Annotated[
        int, typer.Option(min=1, help="photos for baselines that take seconds for each; fewer where minutes")
    ] = 100,
) -> None:  # fmt: skip
    """Put mappings beside every baseline of the paper's Table 1, on one classifier; a second start goes on."""
    from casmap.inference.mapper import SHIPPED
    from casmap.paper.table1 import run_table1

    outcome = run_table1(
        data, mappings=mapping or [SHIPPED], classifier=classifier, out=out, boxes=boxes, masks=masks, split=split,
        size=size, unseen=unseen, train=train, only=only or (), few=few, reporter=reporter,
    )  # fmt: skip
    show_outcome(outcome, out)


def shared_options(
    data: Annotated[
        str | None, typer.Argument(help="photos to train on: scenes[:options] (default), or a folder of photos")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="on scenes, with a small backbone (default)")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="the paper's own setting: ImageNet, ResNet-50")] = False,
    recipe: Annotated[str | None, typer.Option(help="another recipe: a name, or a TOML or YAML file")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="of all that is random")] = None,
    test: Annotated[str | None, typer.Option(help="photos to measure on (default: DATA's held-out ones)")] = None,
    boxes: Boxes = None, masks: Masks = None, split: Split = None, out: Studies = STUDIES, dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Have the options of all studies that train."""


def trains(command: Callable[..., None]) -> None:
    """Make `study NAME` of a function NAME that has the study's own options and help; casmap.paper.NAME has the study.

    Its own options stand before the last two that all of them share.
    """
    name = command.__name__
    shared, own = (list(inspect.signature(f).parameters.values()) for f in (shared_options, command))

    @functools.wraps(command)
    def conduct(*, out: Path, dry_run: bool, **said: Any) -> None:
        from casmap.paper.setting import NOWHERE, count_photos, find_setting

        experiment: Experiment = import_module(f"casmap.paper.{name}").STUDY
        options = {p.name: said.pop(p.name) for p in own}
        if dry_run and said["paper"] and said["data"] is None:
            said["data"] = NOWHERE
        setting = find_setting(said.pop("data"), **said)
        if not dry_run:
            return show_outcome(experiment.run(setting, out=out, reporter=reporter, **options), out / name)
        if planned := experiment.plan(setting, *count_photos(setting), **options):
            print_plan(planned)
        else:
            console.print("Nothing has to be trained.")
        if fetched := experiment.fetched(setting, **options):
            console.print(f"Classifiers whose weights are fetched: {', '.join(fetched)}.", soft_wrap=True)

    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in (*shared[:-2], *own, *shared[-2:])]
    conduct.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    conduct.__annotations__ = {p.name: p.annotation for p in parameters}
    study.command(name)(conduct)


@trains
def table2() -> None:
    """Train the eleven rows of Table 2: score, shared encoder, thinning; OM, LE, F1."""


@trains
def table3() -> None:
    """Train on some of the classes and measure on the others: Table 3."""


@trains
def seeds(
    each: Annotated[
        int, typer.Option("--trainings", min=2, help="of CASM and of Baseline, each with its own seed")
    ] = 5,
) -> None:
    """Train CASM and Baseline again and again: mean, best and worst LE, and a test of significance."""


@trains
def fewshot() -> None:
    """Train on 1, 3, 10, 30 and all photos of each class: LE over photos a class."""


@trains
def statistics(mappings: Looked = None) -> None:
    """Measure total variation, entropy and spread of masks: of mappings given, or CASM and Baseline trained for it."""


@study.command()
def figure1(
    backbone: Annotated[str, typer.Option(help="timm's name, lite0, or torchvision/ and its name")] = "resnet50",
    classes: Annotated[int, typer.Option(min=2, help="that the classifier tells")] = 1000,
    size: Annotated[int, typer.Option(min=32, help="side of the pictures")] = 224,
    out: Studies = STUDIES,
) -> None:
    """Draw the architecture from the model itself: layers, sizes, which pass is for training only."""
    from casmap.paper.figure1 import run_figure1

    show_outcome(run_figure1(backbone=backbone, classes=classes, size=size, out=out), out / "figure1")


@trains
def figure2(
    mappings: Looked = None,
    of_classes: Annotated[
        int | None,
        typer.Option("--classes", min=1, help="so many classes by lot, a picture each, as in the supplement: 16"),
    ] = None,
) -> None:
    """Show seven consecutive photos masked in, masked out and inpainted, for mappings side by side."""


@trains
def figure3(
    mappings: Looked = None,
    classifiers: Annotated[
        list[str] | None,
        typer.Option(
            "--classifier", help="one that casmap wrote, a backbone's name, or BACKBONE=FILE; several may be given"
        ),
    ] = None,
) -> None:
    """Ask many classifiers what they see in photos masked in, masked out and inpainted: Figure 3."""


@study.command()
def report(folder: Annotated[Path, typer.Argument(help="the --out of the studies")] = STUDIES) -> None:
    """Gather all studies of a folder into one page: which of the paper's conclusions hold here."""
    from casmap.paper.report import run_report

    print_report(run_report(folder))
