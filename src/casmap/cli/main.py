"""The command line: parse, call, print. Whatever a command needs is imported when it runs, so that --help is quick."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from casmap.annotations.formats import Classes, Format, Weights, Which
from casmap.cli.options import (
    Alpha,
    Boxes,
    Data,
    Labels,
    Mapping,
    Mappings,
    Masks,
    Out,
    Parts,
    Photos,
    RecipeName,
    Resume,
    Split,
    complaints,
    console,
    with_recipe_options,
)
from casmap.cli.studies import study
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.memory import reuse_memory
from casmap.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(study, name="study")
data_commands = typer.Typer(help="Look at photos and at what is known of them.", no_args_is_help=True)
app.add_typer(data_commands, name="data")

EXTRAS = {
    "train": ("torch", "timm", "torchvision", "yaml", "jinja2", "tensorboard", "onnx"),
    "studies": ("matplotlib", "scipy"),
    "serve": ("fastapi", "uvicorn", "starlette", "pydantic", "anyio", "multipart"),
    "peers": ("captum", "zennit", "torchcam", "skimage"),
    "scale": ("ray", "pyarrow", "webdataset"),
}
INTERRUPTED = 130  # the exit code that typer gives to a KeyboardInterrupt


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    reuse_memory()
    try:
        app()
    except UserError as error:
        complain(str(error))
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            complaints.print("Stopped. A training run goes on from its last checkpoint with --resume, a study without.")
        raise
    except OSError as error:  # of a file or folder that was named: too long a name, a folder nobody may read
        complain(f"{error.filename}: {error.strerror}." if error.filename else f"{error}.")
        sys.exit(2)
    except ModuleNotFoundError as error:
        extra = next((extra for extra, modules in EXTRAS.items() if error.name in modules), None)
        if extra is None:
            raise
        complain(f"This needs {error.name}: pip install 'casmap[{extra}]'.")
        sys.exit(2)


def complain(sentence: str) -> None:
    """Print a sentence to stderr."""
    complaints.print("casmap:", style="bold red", end=" ")
    complaints.print(sentence, soft_wrap=True)


def name_skipped(skipped: list[str]) -> None:
    """Say why photos were left out; the exit code tells it too."""
    for complaint in skipped:
        complain(f"skipped: {complaint}")
    if skipped:
        raise typer.Exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"casmap {__version__}")
        raise typer.Exit


@app.callback()
def casmap(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="say it and exit")
    ] = False,
) -> None:
    """All the evidence in a photo: saliency maps that depend on no single classifier."""


@app.command()
@with_recipe_options
def train(
    data: Data,
    out: Out = Path("runs/casm"),
    recipe: RecipeName = None,
    classifier: Annotated[
        str | None, typer.Option(help="f(0): a classifier casmap wrote, or a safetensors file of the backbone")
    ] = None,
    resume: Resume = False,
    boxes: Labels = None,
    split: Split = None,
    changes: dict[str, Any] | None = None,
) -> None:
    """Train a mapping on photos with class labels; what you do not say is chosen for you."""
    from casmap.training.start import begin

    trained = begin(data, out, recipe, changes or {}, classifier, resume, console, boxes, split)
    took = f" in {trained.seconds / 60:.1f} minutes" if trained.seconds else ""
    console.print(
        f"\nMapping: {trained.mapping}\n"
        f"  {trained.steps} steps{took}; mean mask area {trained.area:.3f}, "
        f"lambda_R {trained.lambda_r:.3g}\n"
        f"  accuracy on training crops: clean {trained.accuracy:.0%}, masked {trained.masked_accuracy:.0%}\n"
        f"Next: casmap extract PHOTOS --mapping {trained.mapping} --out maps",
        soft_wrap=True,
    )


@app.command()
@with_recipe_options
def classifier(
    data: Data,
    out: Out = Path("runs/classifier"),
    recipe: RecipeName = None,
    resume: Resume = False,
    boxes: Labels = None,
    split: Split = None,
    changes: dict[str, Any] | None = None,
) -> None:
    """Train a classifier only, as f(0) is trained: for train --classifier, for study figure3 --classifier."""
    from casmap.training.start import begin_classifier

    path = begin_classifier(data, out, recipe, changes or {}, resume, console, boxes, split)
    console.print(f"\nClassifier: {path}", soft_wrap=True)


@app.command()
def extract(
    photos: Photos,
    mapping: Mapping = None,
    out: Out = Path("maps"),
    everything: Annotated[
        bool, typer.Option("--everything", help="masked-in, masked-out and inpainted pictures too")
    ] = False,
    overlay: Annotated[bool, typer.Option(help="pictures to look at, beside the masks")] = True,
    alpha: Alpha = 1.0,
    batch: Annotated[int, typer.Option(min=1, help="photos that a core works on at a time")] = 8,
    device: Annotated[str, typer.Option(help="cpu; cuda or mps where the mapping's runtime has it")] = "cpu",
    window: Annotated[
        tuple[float, float] | None, typer.Option(metavar="CENTRE WIDTH", help="for DICOM, instead of the file's own")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="for millions of photos: Parquet files, made on Ray")] = False,
    address: Annotated[str | None, typer.Option(help="with --ray: of a cluster (default: this machine)")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="with --ray (default: one for each core here)")] = None,
) -> None:
    """Write masks, overlays and boxes.jsonl to a folder. Unreadable photos are named; the exit code is 1 then."""
    if ray:
        if everything or window is not None or device != "cpu":
            raise UserError("--ray writes rows, not pictures, on CPUs: leave out --everything, --window and --device.")
        from casmap.inference.on_ray import extract_many

        many = extract_many(photos, mapping, out, alpha, address, workers, console=console)
        console.print(f"{many.maps} {'map' if many.maps == 1 else 'maps'} in {out}", soft_wrap=True)
        name_skipped(many.skipped)
        return
    from casmap.inference.folder import extract_photos
    from casmap.inference.saliency_map import VIEWS

    kinds = VIEWS if everything else VIEWS[: 1 + overlay]
    skipped, written, empty = extract_photos(photos, mapping, out, kinds, alpha, batch, device, console, window)
    console.print(f"{written} {'map' if written == 1 else 'maps'} in {out}", soft_wrap=True)
    if empty:
        complain(f"Empty masks, whose boxes mean nothing: {empty}. The mapping may need more training.")
    name_skipped(skipped)


@app.command()
def annotate(
    photos: Photos,
    form: Annotated[
        Format, typer.Option("--format", help="coco, yolo (boxes), yolo-seg (outlines), voc, label-studio or cvat")
    ],
    mapping: Mapping = None,
    out: Out = Path("annotations"),
    classes: Annotated[
        Classes, typer.Option(help="of the folder a photo is in, as the mapping's classifier sees it, or none")
    ] = "folder",
    objects: Annotated[Which, typer.Option(help="the largest object of a photo, or all")] = "largest",
    min_area: Annotated[float, typer.Option(min=0, max=1, help="the smallest object, as a share of the photo")] = 0.01,
    alpha: Alpha = 1.0,
    rle: Annotated[bool, typer.Option("--rle", help="coco: pixels exactly, instead of polygons")] = False,
    prefix: Annotated[
        str, typer.Option(help="label-studio: what stands before a photo's name in its address")
    ] = "/data/local-files/?d=",
) -> None:
    """Write boxes and outlines for the tool you use, to be corrected there. Unreadable photos make the exit code 1."""
    from casmap.tools.annotate import annotate_photos

    path, labelled, skipped = annotate_photos(
        photos, mapping, out, form, classes, objects, min_area, alpha, rle, prefix, console
    )
    count = sum(len(photo.objects) for photo in labelled)
    console.print(f"{count} objects in {len(labelled)} photos: {path}", soft_wrap=True)
    name_skipped(skipped)


@app.command()
def check(
    mapping: Annotated[Path, typer.Argument(help="a mapping that casmap wrote")],
    data: Data,
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            help="another to ask: one casmap wrote, a backbone's name, or BACKBONE=FILE; several may be given"
        ),
    ] = None,
    out: Out = Path("check"),
    split: Split = None,
) -> None:
    """Say without boxes whether masks can be trusted: what classifiers still see, warnings, the worst photos first."""
    from casmap.tools.check import run_check

    run_check(mapping, data, out, classifier, split, console)


@app.command()
def correct(
    mapping: Annotated[Path, typer.Argument(help="a mapping that casmap train wrote (.safetensors)")],
    data: Data,
    boxes: Annotated[
        Path | None, typer.Option(help="what people corrected: Label Studio's JSON, CVAT's XML, COCO, or others")
    ] = None,
    masks: Masks = None,
    split: Split = None,
    out: Out = Path("runs/corrected"),
    steps: Annotated[int, typer.Option(min=0, help="of training; 0: only measure")] = 150,
) -> None:
    """Measure maps against what people corrected, and teach the decoder: photos that nobody corrected gain, too."""
    from casmap.tools.correct import run_correct

    run_correct(mapping, data, boxes, masks, split, out, steps, console)


@app.command()
def serve(
    mapping: Mappings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")] = 8765,
    host: Annotated[str, typer.Option(help="where to listen: this machine only, unless you say so")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    megabytes: Annotated[int, typer.Option(min=1, help="of a request, at most")] = 32,
    megapixels: Annotated[int, typer.Option(min=1, help="of a photo, at most")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, help="for a photo, at most")] = 30.0,
) -> None:
    """Show a page on this machine: drop photos, move the threshold, take boxes with you; and answer programs."""
    from casmap.web.limits import Limits
    from casmap.web.serve import serve as run_server

    limits = Limits(bytes=megabytes * 2**20, pixels=megapixels * 10**6, seconds=seconds)
    run_server(mapping, host, port, limits, browser, console)


@app.command()
def export(
    mapping: Annotated[Path, typer.Argument(help="a mapping that casmap train wrote")],
    out: Annotated[Path | None, typer.Option(help="the ONNX file (default: beside the mapping)")] = None,
    to: Annotated[
        Weights, typer.Option(help="onnx: as it is; onnx-half: 16-bit weights, a file of half the size")
    ] = "onnx",
    measure: Annotated[str | None, typer.Option(metavar="DATA", help="photos on which to say what it loses")] = None,
    boxes: Boxes = None,
    masks: Masks = None,
    split: Split = None,
) -> None:
    """Write a mapping as an ONNX file, which needs no torch to run."""
    from casmap.data.sources import open_photos
    from casmap.models.files import load_mapping
    from casmap.tools.export import export_onnx
    from casmap.tools.export_loss import loss_of

    path = out or mapping.with_suffix(".onnx")
    if path.suffix != ".onnx":
        raise UserError(f"An ONNX file's name ends in .onnx, not as in {path}.")
    photos = measure and open_photos(measure, held_out=True, boxes=boxes, masks=masks, split=split)
    export_onnx(*load_mapping(mapping), path, half=to == "onnx-half")
    console.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", soft_wrap=True)
    if photos:
        console.print(str(loss_of(mapping, path, photos)), soft_wrap=True)


@app.command()
def evaluate(
    data: Data,
    mapping: Mappings = None,
    boxes: Boxes = None,
    masks: Masks = None,
    parts: Parts = None,
    split: Split = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="the photos' classes may be new to the mapping: no OM")
    ] = False,
    area: Annotated[float | None, typer.Option(min=0.01, max=0.99, help="compare evidence at this mean area")] = None,
    size: Annotated[int | None, typer.Option(min=32, help="side of the pictures (default: the mapping's own)")] = None,
    json: Annotated[Path | None, typer.Option(help="write all numbers to this file too")] = None,
) -> None:
    """Measure mappings against boxes and masks: OM, LE, F1 and more, beside the centre box and the whole picture."""
    from casmap.evaluation.table import evaluate_mappings, print_rows, to_json
    from casmap.inference.mapper import SHIPPED

    results = evaluate_mappings(data, mapping or [SHIPPED], boxes, masks, parts, area, size, unseen, console, split)
    print_rows(results, console)
    if json:
        write_whole(json, to_json(results))


@data_commands.command("check")
def check_data(
    data: Data,
    boxes: Boxes = None,
    masks: Masks = None,
    parts: Parts = None,
    split: Split = None,
    json: Annotated[Path | None, typer.Option(help="write all of it, with every name, to this file too")] = None,
) -> None:
    """Open every photo, say what was understood and what is wrong; the exit code is 1 where something is."""
    from rich.progress import Progress

    from casmap.data.sources import open_photos
    from casmap.data.validate import check, print_report, to_json

    photos = open_photos(data, boxes=boxes, masks=masks, parts=parts, split=split)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("looking", total=len(photos))
        report = check(photos, lambda: bar.advance(task))
    print_report(report, console)
    if json:
        write_whole(json, to_json(report))
    if not report.fine:
        raise typer.Exit(1)


@data_commands.command("shard")
def shard_data(
    data: Data,
    out: Annotated[Path, typer.Argument(help="folder to write to")],
    boxes: Labels = None,
    split: Split = None,
    megabytes: Annotated[int, typer.Option(min=1, help="of a shard, about")] = 256,
) -> None:
    """Pack photos into tar files (WebDataset shards), for sets of millions and for disks that are far away."""
    from casmap.data.folders import PhotoFolder
    from casmap.data.shards import write_shards

    photos = PhotoFolder(data, boxes, split=split)
    shards = write_shards(photos, out, megabytes, console)
    console.print(f"{len(photos)} photos of {len(photos.classes)} classes in {shards} shards: {out}", soft_wrap=True)
    console.print(f"Next: casmap train {out}", soft_wrap=True)


@app.command()
def scenes(
    out: Annotated[Path, typer.Argument(help="folder to write to")],
    options: Annotated[str, typer.Option(help="e.g. photos=400,classes=40,seed=3,variant=twins")] = "photos=400",
) -> None:
    """Write scenes as ordinary files: class folders, boxes.csv, masks, and the masks of the sufficient parts."""
    from casmap.data.sources import open_photos
    from casmap.data.write import write_photos

    count = write_photos(open_photos(f"scenes:{options}"), out, console)
    console.print(f"{count} scenes in {out / 'photos'}, with {out / 'boxes.csv'}, {out / 'masks'} and {out / 'parts'}")
    console.print(f"Next: casmap train {out / 'photos'}", soft_wrap=True)


@app.command()
def doctor(
    json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Say what is installed, on what machine, what is missing, and what to do about it."""
    from json import dumps

    from rich.table import Table

    from casmap.tools.doctor import examine, to_dict

    findings = examine()
    if json:
        typer.echo(dumps(to_dict(findings), indent=2))
        return
    table = Table(box=None, show_header=False, padding=(0, 1))
    for finding in findings:
        mark = "ok" if finding.well else "--"
        table.add_row(mark, finding.what, finding.found + (f"\n{finding.advice}" if finding.advice else ""))
    console.print(table)


@app.command()
def demo(out: Out = Path("demo"), seed: Annotated[int, typer.Option(min=0, help="of scenes and training")] = 0) -> None:
    """Do the whole walk on embedded data: train CASM and Baseline, extract, evaluate, write one page."""
    from casmap.tools.demo import run_demo

    run_demo(out, seed, console)
