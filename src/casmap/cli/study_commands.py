"""The command line's studies: `casmap study NAME`."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from casmap.baselines import BASELINES
from casmap.cli.console import console, reporter
from casmap.cli.options import Boxes, Data, Mappings, Masks, Out, Split

if TYPE_CHECKING:
    from casmap.paper.outcome import Outcome
    from casmap.paper.plan import Planned
    from casmap.paper.setting import Setting

study = typer.Typer(help="Measure what the paper claims.", no_args_is_help=True)

STUDIES = Path("runs/studies")
Studies = Annotated[Path, typer.Option("--out", help="folder of all studies; trainings in it are shared among them")]
Looked = Annotated[
    list[Path] | None, typer.Option("--mapping", help="look at this one; several may be given (default: train them)")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say only what it would take: runs, steps, disk, memory")]


@study.command("evidence")
def study_evidence(
    out: Out = Path("runs/evidence"),
    seeds: Annotated[list[int] | None, typer.Option(help="which seeds, each a set of scenes and a training")] = None,
) -> None:
    """Measure on scenes, at equal area, whether CASM's masks hold more of the evidence than Baseline's."""
    from casmap.paper.scenes_evidence import run_evidence

    run_evidence(out, seeds or [1, 2, 3], console)


@study.command("twins")
def study_twins(
    out: Out = Path("runs/twins"), seed: Annotated[int, typer.Option(min=0, help="of scenes and training")] = 1
) -> None:
    """Run the paper's example: f(0) looks at one half only; who finds the other half's evidence."""
    from casmap.paper.twins import run_twins

    run_twins(out, seed, console)


@study.command("table1")
def study_table1(
    data: Data,
    mapping: Mappings = None,
    classifier: Annotated[
        str, typer.Option(help="what baselines explain: a classifier casmap wrote, or a backbone's name")
    ] = "lite0",
    out: Out = STUDIES / "table1",
    boxes: Boxes = None,
    masks: Masks = None,
    split: Split = None,
    size: Annotated[int, typer.Option(min=32, help="side of the pictures")] = 224,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="the photos' classes may be new to the classifier: predicted class only")
    ] = False,
    train: Annotated[str | None, typer.Option(help="photos of the same classes, for the baselines that learn")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"this baseline only; may be given several times: {', '.join(BASELINES)}"),
    ] = None,
    few: Annotated[
        int, typer.Option(min=1, help="photos for baselines that take seconds for each; fewer where minutes")
    ] = 100,
) -> None:
    """Put mappings beside every baseline of the paper's Table 1, on one classifier; a second start goes on."""
    from casmap.inference.mapper import SHIPPED
    from casmap.paper.outcome import WIDE, write_outcome
    from casmap.paper.table1 import run_table1

    outcome = run_table1(
        data, mappings=mapping or [SHIPPED], classifier=classifier, out=out, boxes=boxes, masks=masks, split=split,
        size=size, unseen=unseen, train=train, only=only or (), few=few, reporter=reporter,
    )  # fmt: skip
    write_outcome(outcome, out, console)
    reporter.message(outcome.text)
    if console.width < WIDE:
        reporter.message(f"rule: LE by the authors' rule. With all columns and intervals: {out / 'table1.md'}")


def with_setting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what to train and measure on; it receives them as `setting`."""

    def options(
        data: Annotated[
            str | None, typer.Argument(help="photos to train on: scenes[:options] (default), or a folder of photos")
        ] = None,
        quick: Annotated[bool, typer.Option("--quick", help="on scenes, with a small backbone (default)")] = False,
        paper: Annotated[bool, typer.Option("--paper", help="the paper's own setting: ImageNet, ResNet-50")] = False,
        recipe: Annotated[str | None, typer.Option(help="another recipe: a name, or a TOML or YAML file")] = None,
        seed: Annotated[int | None, typer.Option(min=0, help="of all that is random")] = None,
        test: Annotated[str | None, typer.Option(help="photos to measure on (default: DATA's held-out ones)")] = None,
        boxes: Boxes = None,
        masks: Masks = None,
        split: Split = None,
    ) -> None: ...

    shared = list(inspect.signature(options, eval_str=True).parameters.values())
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "setting"]

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        from casmap.paper.setting import NOWHERE, find_setting

        said = {p.name: arguments.pop(p.name) for p in shared}
        if arguments.get("dry_run") and said["paper"] and said["data"] is None:
            said["data"] = NOWHERE
        command(**arguments, setting=find_setting(**said))

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*shared, *own)]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def conduct(
    name: str,
    setting: "Setting",
    out: Path,
    dry_run: bool,
    planned: Callable[["Setting", int, int], list["Planned"]],
    run: Callable[[], "Outcome"],
) -> None:
    """Say what a study would take, or run it and write what it found."""
    from casmap.paper.outcome import write_outcome
    from casmap.paper.plan import print_plan
    from casmap.paper.setting import count_photos

    if dry_run:
        if plan := planned(setting, *count_photos(setting)):
            print_plan(plan, console)
        else:
            console.print("Nothing has to be trained.")
    else:
        write_outcome(run(), out / name, console)


def nothing(setting: "Setting", photos: int, classes: int) -> list["Planned"]:
    """The plan where mappings are given."""
    return []


@study.command("table2")
@with_setting
def study_table2(out: Studies = STUDIES, dry_run: DryRun = False, setting: Any = None) -> None:
    """Train the eleven rows of Table 2: score, shared encoder, thinning; OM, LE, F1."""
    from casmap.paper.table2 import planned, run_table2

    conduct("table2", setting, out, dry_run, planned, lambda: run_table2(setting, out, console))


@study.command("table3")
@with_setting
def study_table3(out: Studies = STUDIES, dry_run: DryRun = False, setting: Any = None) -> None:
    """Train on some of the classes and measure on the others: Table 3."""
    from casmap.paper.table3 import planned, run_table3

    conduct("table3", setting, out, dry_run, planned, lambda: run_table3(setting, out, console))


@study.command("seeds")
@with_setting
def study_seeds(
    trainings: Annotated[int, typer.Option(min=2, help="of CASM and of Baseline, each with its own seed")] = 5,
    out: Studies = STUDIES,
    dry_run: DryRun = False,
    setting: Any = None,
) -> None:
    """Train CASM and Baseline again and again: mean, best and worst LE, and a test of significance."""
    from casmap.paper.seeds import planned, run_seeds

    plan = functools.partial(planned, trainings)
    conduct("seeds", setting, out, dry_run, plan, lambda: run_seeds(setting, trainings, out, console))


@study.command("fewshot")
@with_setting
def study_fewshot(out: Studies = STUDIES, dry_run: DryRun = False, setting: Any = None) -> None:
    """Train on 1, 3, 10, 30 and all photos of each class: LE over photos a class."""
    from casmap.paper.fewshot import planned, run_fewshot

    conduct("fewshot", setting, out, dry_run, planned, lambda: run_fewshot(setting, out, console))


@study.command("statistics")
@with_setting
def study_statistics(
    mapping: Looked = None, out: Studies = STUDIES, dry_run: DryRun = False, setting: Any = None
) -> None:
    """Measure total variation, entropy and spread of masks: of mappings given, or CASM and Baseline trained for it."""
    from casmap.paper.entries import Entries, planned
    from casmap.paper.statistics import run_statistics

    def run() -> "Outcome":
        return run_statistics(Entries.open("statistics", setting, mapping, out, console), console)

    conduct("statistics", setting, out, dry_run, nothing if mapping else planned, run)


@study.command("figure1")
def study_figure1(
    backbone: Annotated[str, typer.Option(help="timm's name, lite0, or torchvision/ and its name")] = "resnet50",
    classes: Annotated[int, typer.Option(min=2, help="that the classifier tells")] = 1000,
    size: Annotated[int, typer.Option(min=32, help="side of the pictures")] = 224,
    out: Studies = STUDIES,
) -> None:
    """Draw the architecture from the model itself: layers, sizes, which pass is for training only."""
    from casmap.paper.figure1 import run_figure1
    from casmap.paper.outcome import write_outcome

    write_outcome(run_figure1(backbone, classes, size, out), out / "figure1", console)


@study.command("figure2")
@with_setting
def study_figure2(
    mapping: Looked = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="so many classes by lot, a picture each, as in the supplement: 16")
    ] = None,
    out: Studies = STUDIES,
    dry_run: DryRun = False,
    setting: Any = None,
) -> None:
    """Show seven consecutive photos masked in, masked out and inpainted, for mappings side by side."""
    from casmap.paper.entries import Entries, planned
    from casmap.paper.figure2 import THINNINGS, run_figure2

    def run() -> "Outcome":
        entries = Entries.open("figure2", setting, mapping, out, console, THINNINGS)
        return run_figure2(entries, setting.recipe.seed, classes)

    plan = nothing if mapping else functools.partial(planned, thinnings=THINNINGS)
    conduct("figure2", setting, out, dry_run, plan, run)


@study.command("figure3")
@with_setting
def study_figure3(
    mapping: Looked = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option(help="one that casmap wrote, a backbone's name, or BACKBONE=FILE; several may be given"),
    ] = None,
    out: Studies = STUDIES,
    dry_run: DryRun = False,
    setting: Any = None,
) -> None:
    """Ask many classifiers what they see in photos masked in, masked out and inpainted: Figure 3."""
    from casmap.paper.figure3 import form, planned, run_figure3

    def run() -> "Outcome":
        return run_figure3(setting, mapping, classifier, out, console)

    conduct("figure3", setting, out, dry_run, nothing if mapping else planned, run)
    if dry_run and (ready := form(setting)[1]) and not mapping:
        console.print(f"Classifiers whose weights are fetched: {', '.join(ready)}.", soft_wrap=True)


@study.command("report")
def study_report(folder: Annotated[Path, typer.Argument(help="the --out of the studies")] = STUDIES) -> None:
    """Gather all studies of a folder into one page: which of the paper's conclusions hold here."""
    from casmap.paper.report import run_report

    run_report(folder, console)
