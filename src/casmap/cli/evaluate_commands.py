"""`casmap check`, `casmap correct` and `casmap evaluate`: how good masks are."""

from pathlib import Path
from typing import Annotated

import typer

from casmap.cli.console import console, reporter
from casmap.cli.options import DATA, Boxes, Data, Mapping, Mappings, Masks, Out, Parts, Split
from casmap.cli.tables import print_check, print_correction, print_fidelity, print_rows
from casmap.errors import UserError
from casmap.io.atomic import write_whole

Fidelity = Annotated[
    str | None,
    typer.Option(
        metavar="CLASSIFIER",
        help="also measure the fidelity of the masks to this classifier, which no training used: a file that casmap "
        "wrote, a backbone's name, or BACKBONE=FILE; minutes on a CPU",
    ),
]

# One value; two in the form of 0.1.0, MAPPING DATA. typer therefore adds ... to the name.
Photos = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help=DATA,
        show_default=False,
    ),
]


def check(
    data: Photos,
    mapping: Mapping = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            help="another classifier: a file casmap wrote, a backbone's name, or BACKBONE=FILE; may be repeated"
        ),
    ] = None,
    fidelity: Fidelity = None,
    out: Out = Path("check"),
    split: Split = None,
) -> None:
    """Check masks without boxes: what classifiers still recognise, warnings, and the worst photos first."""
    from casmap.tools.check import check

    photos, mapping = photos_and_mapping("check", data, mapping)
    checked = check(
        photos,
        mapping=mapping,
        classifiers=classifier or (),
        fidelity=fidelity,
        out=out,
        split=split,
        reporter=reporter,
    )
    print_check(checked)
    if fidelity:
        print_fidelity(checked.fidelity, fidelity)
    console.print(f"\nPage: {out / 'check.html'}", soft_wrap=True)


def correct(
    data: Photos,
    mapping: Annotated[
        Path | None, typer.Option(help="mapping file to train, .safetensors or .onnx (default: the shipped mapping)")
    ] = None,
    boxes: Annotated[
        Path | None, typer.Option(help="corrected boxes or outlines: Label Studio's JSON, CVAT's XML, COCO or others")
    ] = None,
    masks: Masks = None, split: Split = None, out: Out = Path("runs/corrected"),
    steps: Annotated[int, typer.Option(min=0, help="training steps; 0 only measures")] = 150,
) -> None:  # fmt: skip
    """Measure masks against corrected annotations, and fine-tune the mapping's decoder on them."""
    from casmap.tools.correct import correct

    photos, mapping = photos_and_mapping("correct", data, mapping)
    print_correction(
        correct(photos, mapping=mapping, boxes=boxes, masks=masks, split=split, out=out, steps=steps, reporter=reporter)
    )


def photos_and_mapping(command: str, arguments: list[str], mapping: Path | None) -> tuple[str, Path | None]:
    """PHOTOS and --mapping from the arguments of a command: PHOTOS, or MAPPING PHOTOS as in 0.1.0.

    MAPPING is a .safetensors or .onnx file, or the word casmap if no such path exists: the shipped mapping.

    >>> photos_and_mapping("check", ["photos"], None), photos_and_mapping("check", ["m.onnx", "photos"], None)
    (('photos', None), ('photos', PosixPath('m.onnx')))
    """
    if len(arguments) == 1:
        return arguments[0], mapping
    first, *others = arguments
    shipped = first == "casmap" and not Path(first).exists()
    if len(others) > 1 or not (shipped or Path(first).suffix in (".safetensors", ".onnx")):
        raise UserError(
            f"casmap {command} takes one folder of photos; {len(arguments)} were given: {' '.join(arguments)}."
        )
    if mapping is not None:
        raise UserError(f"Two mappings were given, {first} and --mapping {mapping}: give one of them.")
    return others[0], None if shipped else Path(first)


def evaluate(
    data: Data, mapping: Mappings = None, boxes: Boxes = None, masks: Masks = None, parts: Parts = None,
    split: Split = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="accept classes that the mapping does not know; there is no OM then")
    ] = False,
    area: Annotated[float | None, typer.Option(min=0.01, max=0.99, help="compare evidence at this mean area")] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=32, help="side of the square that photos are resized to (default: the mapping's; --fidelity: 224)"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="print all measures, under all four protocols")] = False,
    fidelity: Fidelity = None,
    json: Annotated[Path | None, typer.Option(help="also write all measures to this file")] = None,
) -> None:  # fmt: skip
    """Measure mappings against boxes and masks, next to a centred square and the whole photo."""
    from casmap.evaluation.evaluation_json import to_json
    from casmap.evaluation.table import evaluate as measure

    if fidelity:
        from casmap.tools.classifiers import open_judge
        from casmap.tools.judged import judge_masks

        judge = open_judge(fidelity)  # a wrong name is refused before anything is measured
    results = measure(
        data, mapping=mapping or None, boxes=boxes, masks=masks, parts=parts, split=split, area=area, size=size,
        unseen=unseen, brief=not everything and json is None, reporter=reporter,
    )  # fmt: skip
    print_rows(results, everything)
    judged = []
    if fidelity:
        judged = judge_masks(
            data, mapping or [], judge, boxes=boxes, masks=masks, split=split, size=size, reporter=reporter
        )
        print_fidelity(judged, fidelity)
    if json:
        write_whole(json, to_json(results, judged))
    elif not everything:
        reporter.message("All measures: --all, or --json FILE.")
