"""Annotate: photos in, boxes and outlines out, in the format of the tool that people already use."""

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from casmap.annotations.coco_writer import write_coco
from casmap.annotations.cvat import write_cvat
from casmap.annotations.formats import Classes, Format, Which
from casmap.annotations.label_studio import LOCAL, write_label_studio
from casmap.annotations.labelled import Labelled, labels_of
from casmap.annotations.voc_writer import write_voc
from casmap.annotations.yolo import write_yolo
from casmap.errors import UserError
from casmap.inference.folder import to_map
from casmap.inference.mapper import Mapped, SaliencyMapper
from casmap.inference.objects import SMALLEST, objects_of
from casmap.inference.pipeline import Pipeline

UNNAMED = "object"  # the class of all where none is asked for
BATCH = 8


def annotate_photos(
    sources: list[str],
    mapping: Path | None,
    out: Path,
    form: Format,
    classes: Classes = "folder",
    which: Which = "largest",
    smallest: float = SMALLEST,
    alpha: float = 1.0,
    rle: bool = False,
    prefix: str = LOCAL,
    console: Console | None = None,
) -> tuple[Path, list[Labelled], list[str]]:
    """Write the annotations of all photos found; returns the file to open, the photos, and a sentence for each skipped.

    classes: of the folder a photo is in, as the mapping's classifier sees it, or one for all.
    """
    if out.is_dir() and any(out.iterdir()):
        raise UserError(f"{out} already holds something: choose another --out.")
    paths, skipped = to_map(sources)
    mapper = SaliencyMapper.load(mapping, threads=1 if len(paths) > BATCH else None)
    if classes == "predicted" and not mapper.network.predicts:
        raise UserError("This mapping tells no classes: take those of the folders, or none.")
    above = Path(os.path.commonpath([os.path.abspath(path.parent) for path in paths]))
    if classes == "folder" and len({path.parent.resolve() for path in paths}) == 1:
        above = above.parent  # the folder of a single class

    def label(mapped: Mapped) -> Labelled:
        path = Path(str(mapped.source))
        whole = Path(os.path.abspath(path))
        name = {"folder": whole.parent.name, "predicted": mapped.label or UNNAMED, "none": UNNAMED}[classes]
        objects = objects_of(mapped.full_mask(), name, which, smallest, alpha)
        return Labelled(path, whole.relative_to(above).as_posix(), mapped.width, mapped.height, tuple(objects))

    photos: list[Labelled] = []
    with (
        Progress(console=console or Console(quiet=True), transient=True) as bar,
        Pipeline(paths, mapper, label, BATCH, whole=False) as pipeline,
    ):
        task = bar.add_task("annotating", total=len(paths))
        for done in pipeline:
            if done.error is not None:
                raise done.error
            photos += done.made
            skipped += done.skipped
            bar.update(task, advance=done.photos)
    if not photos:
        raise UserError(f"None of the {len(skipped)} photos can be read; the first: {skipped[0]}")
    labels = labels_of(photos)
    write: dict[Format, Callable[[], Path]] = {
        "coco": lambda: write_coco(photos, labels, out, rle),
        "yolo": lambda: write_yolo(photos, labels, out),
        "yolo-seg": lambda: write_yolo(photos, labels, out, outlines=True),
        "voc": lambda: write_voc(photos, out),
        "label-studio": lambda: write_label_studio(photos, labels, out, prefix),
        "cvat": lambda: write_cvat(photos, labels, out),
    }
    return write[form](), photos, skipped
