"""`casmap check`, `casmap correct` and `casmap evaluate`: how good masks are."""

from pathlib import Path
from typing import Annotated

import typer

from casmap.cli.console import console, reporter
from casmap.cli.options import Boxes, Data, Mappings, Masks, Out, Parts, Split
from casmap.cli.tables import print_check, print_correction, print_rows
from casmap.io.atomic import write_whole


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
    from casmap.tools.check import check

    print_check(check(mapping, data, classifiers=classifier or (), out=out, split=split, reporter=reporter))
    console.print(f"\nSheet: {out / 'check.html'}", soft_wrap=True)


def correct(
    mapping: Annotated[Path, typer.Argument(help="a mapping that casmap train wrote (.safetensors)")],
    data: Data,
    boxes: Annotated[
        Path | None, typer.Option(help="what people corrected: Label Studio's JSON, CVAT's XML, COCO, or others")
    ] = None,
    masks: Masks = None, split: Split = None, out: Out = Path("runs/corrected"),
    steps: Annotated[int, typer.Option(min=0, help="of training; 0: only measure")] = 150,
) -> None:  # fmt: skip
    """Measure maps against what people corrected, and teach the decoder: photos that nobody corrected gain, too."""
    from casmap.tools.correct import correct

    print_correction(
        correct(mapping, data, boxes=boxes, masks=masks, split=split, out=out, steps=steps, reporter=reporter)
    )


def evaluate(
    data: Data, mapping: Mappings = None, boxes: Boxes = None, masks: Masks = None, parts: Parts = None,
    split: Split = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="the photos' classes may be new to the mapping: no OM")
    ] = False,
    area: Annotated[float | None, typer.Option(min=0.01, max=0.99, help="compare evidence at this mean area")] = None,
    size: Annotated[int | None, typer.Option(min=32, help="side of the pictures (default: the mapping's own)")] = None,
    json: Annotated[Path | None, typer.Option(help="write all numbers to this file too")] = None,
) -> None:  # fmt: skip
    """Measure mappings against boxes and masks: OM, LE, F1 and more, beside the centre box and the whole picture."""
    from casmap.evaluation.table import evaluate as measure
    from casmap.evaluation.table import to_json

    results = measure(
        data, mapping=mapping or None, boxes=boxes, masks=masks, parts=parts, split=split, area=area, size=size,
        unseen=unseen, reporter=reporter,
    )  # fmt: skip
    print_rows(results)
    if json:
        write_whole(json, to_json(results))
