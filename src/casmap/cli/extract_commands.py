"""`casmap extract` and `casmap annotate`: maps of photos, and annotations made of them."""

from pathlib import Path
from typing import Annotated

import typer

from casmap.annotations.formats import Classes, Format, Which
from casmap.cli.console import complain, console, name_skipped, reporter
from casmap.cli.options import Alpha, Mapping, Out, Photos
from casmap.errors import UserError


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
        complain(f"No object found in {done.empty} photos: lower --alpha, or train the mapping longer.")
    name_skipped(done.skipped)


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
