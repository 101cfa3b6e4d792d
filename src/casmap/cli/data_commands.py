"""`casmap data` and `casmap scenes`."""

from pathlib import Path
from typing import Annotated

import typer

from casmap.cli.console import reporter
from casmap.cli.options import Boxes, Data, Labels, Masks, Parts, Split
from casmap.cli.tables import print_data
from casmap.io.atomic import write_whole

data = typer.Typer(help="Look at photos and at what is known of them.", no_args_is_help=True)


@data.command("check")
def check_data(
    data: Data, boxes: Boxes = None, masks: Masks = None, parts: Parts = None, split: Split = None,
    json: Annotated[Path | None, typer.Option(help="write all of it, with every name, to this file too")] = None,
) -> None:  # fmt: skip
    """Open every photo, say what was understood and what is wrong; the exit code is 1 where something is."""
    from casmap.data.sources import open_photos
    from casmap.data.validate import check, to_json

    report = check(open_photos(data, boxes=boxes, masks=masks, parts=parts, split=split), reporter=reporter)
    print_data(report)
    if json:
        write_whole(json, to_json(report))
    if not report.fine:
        raise typer.Exit(1)


@data.command("shard")
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
    packed = write_shards(photos, out, megabytes=megabytes, reporter=reporter)
    reporter.message(f"{len(photos)} photos of {len(photos.classes)} classes in {packed.shards} shards: {out}")
    reporter.message(f"Next: casmap train {out}")


def scenes(
    out: Annotated[Path, typer.Argument(help="folder to write to")],
    options: Annotated[str, typer.Option(help="e.g. photos=400,classes=40,seed=3,variant=twins")] = "photos=400",
) -> None:
    """Write scenes as ordinary files: class folders, boxes.csv, masks, and the masks of the sufficient parts."""
    from casmap.data.sources import open_photos
    from casmap.data.write import write_photos

    drawn = open_photos(f"scenes:{options}")
    to = write_photos(drawn, out, reporter=reporter)
    reporter.message(f"{len(drawn)} scenes in {to.photos}, with {to.boxes}, {to.masks} and {to.parts}")
    reporter.message(f"Next: casmap train {to.photos}")
