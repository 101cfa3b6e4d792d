"""`casmap extract` and `casmap annotate`: maps of photos, and annotations made of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from casmap.annotations.format import FORMATS, Classes, Which, WriteOptions
from casmap.cli.console import complain, name_skipped, reporter
from casmap.cli.options import Alpha, Mapping, Out, Photos
from casmap.errors import UserError

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS.names)]  # plugins' too


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
        from casmap.inference.on_ray import extract_on_ray

        done = extract_on_ray(
            photos, mapping=mapping, out=out, alpha=alpha, address=address, workers=workers, reporter=reporter
        )
    else:
        from casmap.inference.folder import extract as extract_folder
        from casmap.inference.views import VIEWS

        views = VIEWS if everything else VIEWS[: 1 + overlay]
        done = extract_folder(
            photos, mapping=mapping, out=out, views=views, alpha=alpha, batch=batch, device=device, window=window,
            reporter=reporter,
        )  # fmt: skip
    reporter.message(f"{done.written} {'map' if done.written == 1 else 'maps'} in {out}")
    if done.empty:
        advice = "lower --alpha" if alpha > 1 else "the mapping may need more training"
        complain(f"No object found in {done.empty} photos: {advice}.")
    if done.skipped:
        name_skipped(done.skipped)


def annotate(
    photos: Photos,
    form: Annotated[
        FormatName, typer.Option("--format", help="of your tool; yolo: boxes, yolo-seg: outlines, masks: PNG files")
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
    ] = WriteOptions.prefix,
    val: Annotated[
        float, typer.Option(min=0, max=1, help="yolo: share of the photos in the validation split")
    ] = WriteOptions.val,
) -> None:
    """Write boxes and outlines for the tool you use, to be corrected there. Unreadable photos make the exit code 1."""
    from casmap.tools.annotate import annotate as annotate_photos

    result = annotate_photos(
        photos, format=form, mapping=mapping, out=out, classes=classes, objects=objects, min_area=min_area,
        alpha=alpha, rle=rle, prefix=prefix, val=val, reporter=reporter,
    )  # fmt: skip
    count = sum(len(photo.objects) for photo in result.photos)
    reporter.message(f"{count} objects in {len(result.photos)} photos: {result.path}")
    if result.skipped:
        name_skipped(result.skipped)
