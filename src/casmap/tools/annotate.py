"""Annotate photos: write boxes and outlines in the format of common annotation tools."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args

from casmap.annotations.format import FORMATS, Classes, Which, WriteOptions
from casmap.annotations.labelled import Labelled, labels_of
from casmap.errors import UnreadableImage, UserError, option
from casmap.inference.components import Mask, Threshold
from casmap.inference.edges import Edges
from casmap.inference.folder import to_map
from casmap.inference.given_maps import GivenMaps, find_maps, given_mask
from casmap.inference.mapper import SaliencyMapper, as_mapper
from casmap.inference.objects import SMALLEST, objects_of
from casmap.inference.pipeline import BATCH, Pipeline, cores
from casmap.io.decoding import image_size
from casmap.io.find import base_folder
from casmap.io.images import unusable
from casmap.io.lock import LOCK, locked
from casmap.io.names import written
from casmap.io.opener import Opener
from casmap.io.reading import is_inside
from casmap.reporting import SILENT, Reporter, counted

UNNAMED = "object"  # the class of photos that are in no class folder, and of all with classes="none"
Label = Callable[[Path, Mask, str | None], Labelled]  # takes a photo, its mask and the predicted class


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
    maps: str | os.PathLike[str] | None = None, rle: bool = WriteOptions.rle,
    prefix: str | None = WriteOptions.prefix, val: float = WriteOptions.val, reporter: Reporter = SILENT,
) -> AnnotationResult:  # fmt: skip
    """Find the objects in photos and write them in a format: coco, yolo, voc or any other name in `FORMATS`.

    photos: files, folders, patterns. Names of photos are relative to the folder given (of several sources: to their
    common parent), with forward slashes. classes: "folder", the name of the folder a photo is in, or `object` for a
    photo directly in the folder given; "predicted", the class the mapping's classifier predicts; "none", `object` for
    all. min_area: of the smallest object, as a share of the photo. threshold, alpha: as in
    `SaliencyMap`. edges: as in `load`. maps: instead of a mapping, a folder of heatmaps that another program made, PNG,
    NPY or NPZ, with the photos' paths; they are resized to the photos. rle, prefix, val: see `WriteOptions`.
    """
    out, form, cut = Path(out), FORMATS[format], Threshold(alpha, threshold)
    if classes not in get_args(Classes):
        raise UserError(f"{option('classes')} must be one of {', '.join(get_args(Classes))}, not {classes!r}.")
    given = {"mapping": mapping, "edges": edges, "classes": classes if classes == "predicted" else None}
    if maps is not None and (unused := [name for name, value in given.items() if value is not None]):
        raise UserError(f"{option('maps')} replaces the mapping: leave out {option(unused[0])}.")
    options = WriteOptions(rle, prefix, val)
    check_options(format, options)
    with locked(out, reporter), Opener(cores()) as opener:
        if any(path.name != LOCK for path in out.iterdir()):
            raise UserError(f"{out} is not empty: choose another folder ({option('out')}).")
        photos = [photos] if isinstance(photos, str | os.PathLike) else list(photos)
        paths, skipped = to_map(photos)
        base = base_folder(photos)
        if maps is not None and not is_inside(base, Path(maps)):  # a folder of maps in the folder of photos
            paths = [path for path in paths if not is_inside(path, Path(maps))]
        names = {path: Path(os.path.abspath(path)).relative_to(base) for path in paths}

        def label(path: Path, mask: Mask, predicted: str | None) -> Labelled:
            name, (height, width) = names[path], mask.shape
            folder = written(name.parent.name) or UNNAMED
            label = {"folder": folder, "predicted": predicted or UNNAMED, "none": UNNAMED}[classes]
            found = objects_of(mask, label, objects, min_area, cut)
            return Labelled(path, written(name.as_posix()), width, height, tuple(found))

        if maps is None:
            opener.start(math.ceil(len(paths) / BATCH))  # they become ready while the mapping loads
            mapper = as_mapper(mapping, threads=1 if len(paths) > BATCH else None, edges=edges)
            if mapper.caution:
                reporter.warning(mapper.caution)
            if classes == "predicted" and not mapper.network.predicts:
                others = f"{option('classes', 'folder')} or {option('classes', 'none')}"
                raise UserError(f"This mapping predicts no classes: use {others}.")
            made = _by_mapping(paths, mapper, label, opener, reporter)
        else:
            made = _by_maps(find_maps(Path(maps), names), paths, label, opener, reporter)
        loose = [name for name in names.values() if len(name.parts) == 1]
        if classes == "folder" and loose:
            text = "is in no class folder and gets" if len(loose) == 1 else "are in no class folder and get"
            reporter.message(f"{counted(len(loose), 'photo')} {text} the class {UNNAMED!r}.")
        if classes == "folder":
            tell_of_nested_folders(names.values(), reporter)
        labelled: list[Labelled] = []
        for one in made:
            labelled += [one] if isinstance(one, Labelled) else []
            skipped += [one] if isinstance(one, str) else []
        if not labelled:
            raise UserError(f"No photo could be read. The first error: {skipped[0]}")
        path = form.write(labelled, labels_of(labelled), out, replace(options, folder=base.name))
        return AnnotationResult(path, labelled, skipped)


def check_options(format: str, options: WriteOptions) -> None:
    """Raise UserError if an option is set that the format does not use.

    >>> check_options("coco", WriteOptions(rle=True))
    """
    own = FORMATS[format].options
    for entry in fields(options):
        if getattr(options, entry.name) != entry.default and entry.name not in own:
            others = ", ".join(name for name in FORMATS if entry.name in FORMATS[name].options)
            raise UserError(f"{option(entry.name)} works only with {option('format')} {others}, not with {format}.")


def _by_mapping(
    paths: list[Path], mapper: SaliencyMapper, label: Label, opener: Opener, reporter: Reporter
) -> Iterator[Labelled | str]:
    """Yield the photos with the objects that a mapping finds, and a sentence for each that cannot be read."""
    with Pipeline(
        paths, mapper, lambda found: label(Path(str(found.source)), found.full_mask(), found.label),
        whole=False, label="Annotating photos", reporter=reporter, opener=opener,
    ) as pipeline:  # fmt: skip
        for done in pipeline:
            yield from done.made
            yield from done.skipped


def _by_maps(
    found: GivenMaps, paths: list[Path], label: Label, opener: Opener, reporter: Reporter
) -> Iterator[Labelled | str]:
    """Yield the photos with the objects of maps that another program made, and a sentence for each problem."""
    yield from found.problems
    for path in reporter.track([path for path in paths if path in found.files], "Annotating photos"):
        try:
            size = image_size(path)
            if size is None:  # opened, it says why
                opened = opener(path)
                size = opened.width, opened.height
            yield label(path, given_mask(found.files[path], *size), None)
        except UserError as error:
            if not isinstance(error, UnreadableImage):
                raise
            yield str(error)
        except Exception as error:  # MemoryError, or OpenCV's
            yield str(unusable(path, error))


def tell_of_nested_folders(names: Iterable[Path], reporter: Reporter) -> None:
    """Say so if photos of one class folder, as `casmap train` understands it, get several classes here."""
    nested = [name for name in names if len(name.parts) > 2]
    inner, first = {name.parent.name for name in nested}, {name.parts[0] for name in nested}
    if len(inner) > 1 and inner != first:
        shown = [written(", ".join(sorted(some)[:3])) + ", ..." * (len(some) > 3) for some in (inner, first)]
        reporter.message(
            f"Classes are the names of the innermost folders ({shown[0]}). "
            f"casmap train takes the first ones ({shown[1]})."
        )
