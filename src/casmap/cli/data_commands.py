"""`casmap data` and `casmap scenes`."""

from pathlib import Path
from typing import Annotated

import typer

from casmap.cli.console import reporter
from casmap.cli.options import Boxes, Data, Labels, Masks, Parts, Split
from casmap.cli.tables import print_data
from casmap.io.atomic import write_whole
from casmap.reporting import counted

data = typer.Typer(help="Check photos and annotations, or pack photos into shards.", no_args_is_help=True)


@data.command("check")
def check_data(
    data: Data, boxes: Boxes = None, masks: Masks = None, parts: Parts = None, split: Split = None,
    json: Annotated[Path | None, typer.Option(help="also write the report, with all file names, to this file")] = None,
) -> None:  # fmt: skip
    """Open every photo and list problems in photos and annotations.

    The exit code is 1 if there is a problem.
    """
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
    out: Annotated[Path, typer.Argument(metavar="OUT", help="folder to write to")],
    boxes: Labels = None,
    split: Split = None,
    megabytes: Annotated[int, typer.Option(min=1, help="approximate size of a shard, in MB")] = 256,
) -> None:
    """Pack photos into WebDataset shards (tar files), for large datasets and network disks."""
    from casmap.data.folders import PhotoFolder
    from casmap.data.shards import write_shards

    photos = PhotoFolder(data, boxes, split=split)
    packed = write_shards(photos, out, megabytes=megabytes, reporter=reporter)
    found = f"{counted(len(photos), 'photo')} of {counted(len(photos.classes), 'class')}"
    reporter.message(f"{found} in {counted(packed.shards, 'shard')}: {out}")
    reporter.message(f"Next: casmap train {out}")


def scenes(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="folder to write to")],
    options: Annotated[str, typer.Option(help="e.g. photos=400,classes=40,seed=3,variant=twins")] = "photos=400",
) -> None:
    """Write generated scenes as photos in class folders, with boxes, masks and masks of the sufficient parts."""
    from casmap.data.sources import open_photos
    from casmap.data.write import write_photos

    drawn = open_photos(f"scenes:{options}")
    to = write_photos(drawn, out, reporter=reporter)
    reporter.message(f"{counted(len(drawn), 'scene')} in {to.photos}, with {to.boxes}, {to.masks} and {to.parts}")
    reporter.message(f"Next: casmap train {to.photos}")
