"""`casmap extract` and `casmap annotate`: saliency maps and annotations of photos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from casmap.annotations.format import FORMATS, Classes, Which, WriteOptions
from casmap.cli.console import complain, if_stopped, name_skipped, reporter
from casmap.cli.options import Alpha, Edges, Mapping, Out, Photos, Threshold
from casmap.errors import UserError
from casmap.reporting import counted

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS.names)]  # with those of plugins


def extract(
    photos: Photos,
    mapping: Mapping = None,
    out: Out = Path("maps"),
    everything: Annotated[
        bool, typer.Option("--everything", help="also write masked-in, masked-out and inpainted images, and cutouts")
    ] = False,
    cutout: Annotated[
        bool, typer.Option("--cutout", help="also write the largest object of each photo on a transparent background")
    ] = False,
    overlay: Annotated[bool, typer.Option(help="write an overlay next to each mask")] = True,
    threshold: Threshold = None,
    alpha: Alpha = None,
    edges: Edges = None,
    batch: Annotated[int, typer.Option(min=1, help="photos per batch, on each core")] = 8,
    device: Annotated[str, typer.Option(help="cpu, or cuda or mps if the runtime of the mapping supports it")] = "cpu",
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="CENTRE WIDTH", help="grey-level window for DICOM (default: the one in the file)"),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="videos: map every n-th frame")] = 1,
    ray: Annotated[bool, typer.Option("--ray", help="for millions of photos: write Parquet files with Ray")] = False,
    address: Annotated[str | None, typer.Option(help="with --ray: cluster address (default: this machine)")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="with --ray: workers (default: one per core)")] = None,
) -> None:
    """Write the mask, overlay and box of each photo to a folder. A video gets a folder of its own in it.

    Unreadable photos are skipped and listed; the exit code is then 1.
    """
    from casmap.inference.views import VIEWS
    from casmap.io.video import is_video

    if not ray and (address is not None or workers is not None):
        raise UserError("--address and --workers need --ray: add --ray, or remove them.")
    views = VIEWS if everything else (*VIEWS[: 1 + overlay], *(["cutout"] if cutout else []))
    videos, photos = [one for one in photos if is_video(one)], [one for one in photos if not is_video(one)]
    if videos and ray:
        raise UserError("--ray maps photos only: leave out videos.")
    for video in videos:
        from casmap.inference.video_maps import extract_video

        with if_stopped(f"Stopped: the masks in {out} are incomplete."):
            film = extract_video(
                video, mapping=mapping, out=out, every=every, views=views, alpha=alpha, threshold=threshold,
                device=device, edges=edges, reporter=reporter,
            )  # fmt: skip
        reporter.message(f"{counted(film.written, 'frame')} in {film.out}")
    if videos and not photos:
        return
    if ray:
        if everything or cutout or window is not None or device != "cpu":
            raise UserError("--ray writes Parquet rows on CPUs: remove --everything, --cutout, --window and --device.")
        from casmap.inference.on_ray import extract_on_ray

        with if_stopped(f"Stopped: the finished parts are in {out}; run the same command to continue."):
            done = extract_on_ray(
                photos, mapping=mapping, out=out, alpha=alpha, threshold=threshold, edges=edges or "sharp",
                address=address, workers=workers, reporter=reporter,
            )  # fmt: skip
    else:
        from casmap.inference.folder import extract as extract_folder

        done = extract_folder(
            photos, mapping=mapping, out=out, views=views, alpha=alpha, threshold=threshold, edges=edges,
            batch=batch, device=device, window=window, reporter=reporter,
        )  # fmt: skip
    reporter.message(f"{counted(done.written, 'map')} in {out}")
    if done.empty:
        lower = "--threshold" if alpha is None else "--alpha"
        advice = f"lower {lower}, or the mapping may need more training"
        complain(f"No object found in {counted(done.empty, 'photo')}: {advice}.")
    if done.skipped:
        name_skipped(done.skipped)


def annotate(
    photos: Photos,
    form: Annotated[
        FormatName, typer.Option("--format", help="format to write; yolo: boxes, yolo-seg: polygons, masks: PNG files")
    ],
    mapping: Mapping = None,
    maps: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="instead of --mapping: heatmaps of another program, PNG, NPY or NPZ"),
    ] = None,
    out: Out = Path("annotations"),
    classes: Annotated[
        Classes, typer.Option(help="class of an object: folder of the photo, predicted by the mapping, or none")
    ] = "folder",
    objects: Annotated[Which, typer.Option(help="objects per photo: the largest, or all")] = "largest",
    min_area: Annotated[float, typer.Option(min=0, max=1, help="smallest object, as a share of the photo")] = 0.01,
    threshold: Threshold = None,
    alpha: Alpha = None,
    edges: Edges = None,
    rle: Annotated[bool, typer.Option("--rle", help="coco: write exact run-length masks instead of polygons")] = False,
    prefix: Annotated[
        str | None,
        typer.Option(help="label-studio: text before the file name in a photo's URL (default: local files)"),
    ] = WriteOptions.prefix,
    val: Annotated[
        float, typer.Option(min=0, max=1, help="yolo: share of the photos in the validation split")
    ] = WriteOptions.val,
) -> None:
    """Write boxes and outlines of objects in the format of an annotation tool.

    Unreadable photos are skipped and listed; the exit code is then 1.
    """
    from casmap.tools.annotate import annotate as annotate_photos

    result = annotate_photos(
        photos, format=form, mapping=mapping, maps=maps, out=out, classes=classes, objects=objects, min_area=min_area,
        alpha=alpha, threshold=threshold, edges=edges, rle=rle, prefix=prefix, val=val, reporter=reporter,
    )  # fmt: skip
    count = sum(len(photo.objects) for photo in result.photos)
    reporter.message(f"{counted(count, 'object')} in {counted(len(result.photos), 'photo')}: {result.path}")
    if result.skipped:
        name_skipped(result.skipped)
