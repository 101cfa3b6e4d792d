"""`casmap check`, `casmap correct` and `casmap evaluate`: the quality of masks."""

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
            help="also measure this classifier: a file from casmap, a backbone, or BACKBONE=FILE; repeat for several"
        ),
    ] = None,
    out: Out = Path("check"),
    split: Split = None,
) -> None:
    """Check masks without ground truth: accuracy of classifiers on masked photos, warnings, worst photos first."""
    from casmap.tools.check import check

    print_check(check(mapping, data, classifiers=classifier or (), out=out, split=split, reporter=reporter))
    console.print(f"\nSheet: {out / 'check.html'}", soft_wrap=True)


def correct(
    mapping: Annotated[Path, typer.Argument(help="a mapping that casmap train wrote (.safetensors)")],
    data: Data,
    boxes: Annotated[
        Path | None, typer.Option(help="corrected annotations: Label Studio JSON, CVAT XML, COCO or others")
    ] = None,
    masks: Masks = None, split: Split = None, out: Out = Path("runs/corrected"),
    steps: Annotated[int, typer.Option(min=0, help="training steps; 0: only measure")] = 150,
) -> None:  # fmt: skip
    """Compare masks with corrected annotations and fine-tune the decoder on them."""
    from casmap.tools.correct import correct

    print_correction(
        correct(mapping, data, boxes=boxes, masks=masks, split=split, out=out, steps=steps, reporter=reporter)
    )


def evaluate(
    data: Data, mapping: Mappings = None, boxes: Boxes = None, masks: Masks = None, parts: Parts = None,
    split: Split = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="the mapping may not know the classes of the photos: omit OM")
    ] = False,
    area: Annotated[float | None, typer.Option(min=0.01, max=0.99, help="compare evidence at this mean area")] = None,
    size: Annotated[int | None, typer.Option(min=32, help="input side in pixels (default: the mapping's)")] = None,
    json: Annotated[Path | None, typer.Option(help="also write all numbers to this file")] = None,
) -> None:  # fmt: skip
    """Measure mappings against boxes or masks: OM, LE, F1 and more, next to two trivial baselines."""
    from casmap.evaluation.table import evaluate as measure
    from casmap.evaluation.table import to_json

    results = measure(
        data, mapping=mapping or None, boxes=boxes, masks=masks, parts=parts, split=split, area=area, size=size,
        unseen=unseen, reporter=reporter,
    )  # fmt: skip
    print_rows(results)
    if json:
        write_whole(json, to_json(results))
