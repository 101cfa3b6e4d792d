"""`casmap data` and `casmap scenes`."""

from pathlib import Path
from typing import Annotated

import typer

from casmap.cli.console import console
from casmap.cli.options import Boxes, Data, Labels, Masks, Parts, Split
from casmap.io.atomic import write_whole

data = typer.Typer(help="Look at photos and at what is known of them.", no_args_is_help=True)


@data.command("check")
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
    shards = write_shards(photos, out, megabytes, console)
    console.print(f"{len(photos)} photos of {len(photos.classes)} classes in {shards} shards: {out}", soft_wrap=True)
    console.print(f"Next: casmap train {out}", soft_wrap=True)


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
