"""Annotate photos: write boxes and outlines in the format of common annotation tools."""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from casmap.annotations.format import FORMATS, Classes, Which, WriteOptions
from casmap.annotations.labelled import Labelled, labels_of
from casmap.errors import UserError, option
from casmap.inference.components import Threshold
from casmap.inference.edges import Edges
from casmap.inference.folder import to_map
from casmap.inference.mapper import Mapped, SaliencyMapper, as_mapper
from casmap.inference.objects import SMALLEST, objects_of
from casmap.inference.pipeline import BATCH, Pipeline, cores
from casmap.io.find import base_folder
from casmap.io.lock import LOCK, locked
from casmap.io.names import written
from casmap.io.opener import Opener
from casmap.reporting import SILENT, Reporter

UNNAMED = "object"  # the class of photos that are in no class folder, and of all with classes="none"


@dataclass(frozen=True)
class AnnotationResult:
    """The file or folder to open, the photos in it, and one sentence for each skipped photo."""

    path: Path
    photos: list[Labelled]
    skipped: list[str]


def annotate(
    photos: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, format: str,
    mapping: str | os.PathLike[str] | SaliencyMapper | None = None, out: str | os.PathLike[str] = "annotations",
    classes: Classes = "folder", objects: Which = "largest", min_area: float = SMALLEST,
    alpha: float | None = None, threshold: float | None = None, edges: Edges | None = None,
    rle: bool = WriteOptions.rle, prefix: str | None = WriteOptions.prefix,
    val: float = WriteOptions.val, reporter: Reporter = SILENT,
) -> AnnotationResult:  # fmt: skip
    """Find the objects in photos and write them in a format: coco, yolo, voc or any other name in `FORMATS`.

    photos: files, folders, patterns. Names of photos are relative to the folder given (of several sources: to their
    common parent), with forward slashes. classes: "folder", the name of the folder a photo is in, or `object` for a
    photo directly in the folder given; "predicted", the class the mapping's classifier predicts; "none", `object` for
    all. min_area: of the smallest object, as a share of the photo. threshold, alpha: as in
    `SaliencyMap`. edges: as in `load`. rle, prefix, val: see `WriteOptions`.
    """
    out, form, cut = Path(out), FORMATS[format], Threshold(alpha, threshold)
    with locked(out, reporter), Opener(cores()) as opener:
        if any(path.name != LOCK for path in out.iterdir()):
            raise UserError(f"{out} is not empty: choose another folder ({option('out')}).")
        photos = [photos] if isinstance(photos, str | os.PathLike) else list(photos)
        paths, skipped = to_map(photos)
        opener.start(math.ceil(len(paths) / BATCH))  # they become ready while the mapping loads
        if classes not in get_args(Classes):
            raise UserError(f"{option('classes')} must be one of {', '.join(get_args(Classes))}, not {classes!r}.")
        mapper = as_mapper(mapping, threads=1 if len(paths) > BATCH else None, edges=edges)
        if mapper.caution:
            reporter.warning(mapper.caution)
        if classes == "predicted" and not mapper.network.predicts:
            raise UserError(
                f"This mapping predicts no classes: use {option('classes', 'folder')} or {option('classes', 'none')}."
            )
        base = base_folder(photos)
        names = {path: Path(os.path.abspath(path)).relative_to(base) for path in paths}
        loose = [name for name in names.values() if len(name.parts) == 1]
        if classes == "folder" and loose:
            many = "1 photo is" if len(loose) == 1 else f"{len(loose)} photos are"
            reporter.message(f"{many} directly in {base} and in no class folder: the class is {UNNAMED!r}.")

        def label(mapped: Mapped) -> Labelled:
            path = Path(str(mapped.source))
            name = names[path]
            folder = name.parent.name or UNNAMED
            label = {"folder": written(folder), "predicted": mapped.label or UNNAMED, "none": UNNAMED}[classes]
            found = objects_of(mapped.full_mask(), label, objects, min_area, cut)
            return Labelled(path, written(name.as_posix()), mapped.width, mapped.height, tuple(found))

        labelled: list[Labelled] = []
        with Pipeline(
            paths, mapper, label, whole=False, label="annotating", reporter=reporter, opener=opener
        ) as pipeline:
            for done in pipeline:
                labelled += done.made
                skipped += done.skipped
        if not labelled:
            raise UserError(f"None of {len(skipped)} photos could be read; the first: {skipped[0]}")
        path = form.write(labelled, labels_of(labelled), out, WriteOptions(rle, prefix, val, base.name))
        return AnnotationResult(path, labelled, skipped)
