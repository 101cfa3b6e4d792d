"""Annotate: photos in, boxes and outlines out, in the format of the tool that people already use."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from casmap.data.resizing import resize
from casmap.errors import UnreadableImage, UserError
from casmap.export.coco import write_coco
from casmap.export.cvat import write_cvat
from casmap.export.formats import Classes, Format, Which
from casmap.export.label_studio import LOCAL, write_label_studio
from casmap.export.labelled import Labelled, labels_of
from casmap.export.objects import SMALLEST, objects_of
from casmap.export.voc import write_voc
from casmap.export.yolo import write_yolo
from casmap.extraction import to_map
from casmap.images import find_images, open_image
from casmap.mapper import SaliencyMapper, fit
from casmap.saliency_map import SaliencyMap

UNNAMED = "object"  # the class of all where none is asked for
BATCH = 16


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
    paths, skipped = to_map(find_images(sources))
    mapper = SaliencyMapper.load(mapping)
    if classes == "predicted" and not mapper.network.predicts:
        raise UserError("This mapping tells no classes: take those of the folders, or none.")
    above = Path(os.path.commonpath([os.path.abspath(path.parent) for path in paths]))
    if classes == "folder" and len({path.parent.resolve() for path in paths}) == 1:
        above = above.parent  # the folder of a single class
    find = partial(objects_of, which=which, smallest=smallest, alpha=alpha)
    photos = []
    with Progress(console=console or Console(quiet=True), transient=True) as bar:
        task = bar.add_task("annotating", total=len(paths))
        for path, found, seen in maps_of(paths, mapper, skipped, lambda: bar.advance(task)):
            label = {"folder": Path(os.path.abspath(path)).parent.name, "predicted": seen, "none": UNNAMED}[classes]
            height, width = found.mask.shape
            name = Path(os.path.abspath(path)).relative_to(above).as_posix()
            photos.append(Labelled(path, name, width, height, tuple(find(found, label))))
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


def maps_of(
    paths: list[Path], mapper: SaliencyMapper, skipped: list[str], progress: Callable[[], None]
) -> Iterator[tuple[Path, SaliencyMap, str]]:
    """The map of each photo and the class that the mapping sees; one that cannot be read is told of in `skipped`."""
    for at in range(0, len(paths), BATCH):
        opened = []
        for path in paths[at : at + BATCH]:
            try:
                opened.append((path, open_image(path)))
            except UnreadableImage as error:
                skipped.append(str(error))
                progress()
        if not opened:
            continue
        masks, logits = mapper.masks(np.stack([resize(image, mapper.size, "squash") for _, image in opened]))
        for (path, image), mask, row in zip(opened, masks, logits, strict=True):
            yield path, SaliencyMap(image, fit(mask, image)), mapper.classes[int(row.argmax())]
            progress()
