"""Extract: write the masks, overlays and boxes of many photos to a folder."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from casmap.errors import UserError
from casmap.inference.components import binary_mask, is_flat, largest_box
from casmap.inference.mapper import Mapped, SaliencyMapper
from casmap.inference.pipeline import BATCH, Finished, Pipeline, cores
from casmap.inference.views import VIEWS, grey, view_paths, write_views
from casmap.install_hint import install_hint
from casmap.io import heic
from casmap.io.arrays import Window
from casmap.io.atomic import whole_file
from casmap.io.dicom import SUFFIX, is_dicom, write_dicom_mask
from casmap.io.find import UNSUPPORTED_SUFFIXES, base_folder, find_images
from casmap.io.lock import locked
from casmap.io.names import file_name, unique_names
from casmap.io.opener import Opener
from casmap.io.outputs import BOXES, map_files, read_boxes
from casmap.reporting import SILENT, Reporter


@dataclass(frozen=True)
class Extraction:
    """The result of `extract`: maps written, maps without an object, and the error of each skipped photo."""

    out: Path
    written: int
    empty: int
    skipped: list[str]


def extract(
    photos: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    mapping: str | os.PathLike[str] | SaliencyMapper | None = None,
    out: str | os.PathLike[str] = "maps",
    views: Sequence[str] = VIEWS[:2],
    alpha: float = 1.0,
    batch: int = BATCH,
    device: str = "cpu",
    window: Window | None = None,
    reporter: Reporter = SILENT,
) -> Extraction:
    """Write the saliency maps of photos, given as files, folders and patterns, to the folder `out`.

    boxes.jsonl gets a line for each map: `photo` is relative to `folder`, the absolute path of the folder given (of
    several sources: of their common parent), so the photo is found from any working directory.

    Existing maps of other photos are kept, those of the same photos are replaced. boxes.jsonl matches the maps even if
    the run is interrupted. window: centre and width for DICOM; DICOM masks are also written as DICOM. Masks have the
    size of their photo; the overlay of a large JPEG is smaller, unless views other than mask and overlay are requested.
    """
    out = Path(out)
    if batch < 1:
        raise UserError(f"batch (--batch) must be at least 1, not {batch}.")
    views = [views] if isinstance(views, str) else views
    if unknown := [view for view in views if view not in VIEWS]:
        raise UserError(f"There is no view {unknown[0]!r}: choose from {', '.join(VIEWS)}.")
    photos = [photos] if isinstance(photos, str | os.PathLike) else list(photos)
    with locked(out, reporter), Opener(cores()) as opener:
        return _extract(photos, mapping, out, views, alpha, batch, device, window, reporter, opener)


def _extract(
    photos: list[str | os.PathLike[str]], mapping: str | os.PathLike[str] | SaliencyMapper | None, out: Path,
    views: Sequence[str], alpha: float, batch: int, device: str, window: Window | None, reporter: Reporter,
    opener: Opener,
) -> Extraction:  # fmt: skip
    """Extract into a folder that no other process writes to."""
    paths, skipped = to_map(photos)
    opener.start(math.ceil(len(paths) / batch))  # they become ready while the mapping loads
    base = base_folder(photos)
    earlier = read_boxes(out / BOXES)  # by absolute path
    if isinstance(mapping, SaliencyMapper):
        mapper = mapping
    else:
        mapper = SaliencyMapper.load(mapping, device, threads=1 if len(paths) > batch else None)
    names = unique_names(paths, {photo: line["name"] for photo, line in earlier.items()})
    again = {os.path.abspath(path) for path in paths} & earlier.keys()
    save = partial(save_map, names=names, again=frozenset(again), base=base, out=out, views=views, alpha=alpha)
    written = empty = 0
    stopped: BaseException | None = None
    with whole_file(out / BOXES) as aside, open(aside, "w") as lines:
        lines.writelines(json.dumps(line) + "\n" for photo, line in earlier.items() if photo not in again)

        def keep(done: Finished[dict[str, Any]]) -> None:
            nonlocal written, empty
            for line in done.made:
                again.discard(os.path.abspath(os.path.join(line["folder"], line["photo"])))
                lines.write(json.dumps(line) + "\n")
                written += 1
                empty += line["box"] is None
            skipped.extend(done.skipped)

        whole = not set(views) <= {"mask", "overlay"}
        with Pipeline(paths, mapper, save, batch, whole, window, "extracting", reporter, opener) as pipeline:
            try:
                for done in pipeline:
                    keep(done)
            except BaseException as error:  # also Ctrl-C: record the finished maps, then raise again
                stopped = error
                for done in pipeline.rest():
                    keep(done)
        if stopped is None and not written:
            raise UserError(
                f"No photo could be read: {skipped[0]}"
                if len(skipped) == 1
                else f"None of {len(skipped)} photos could be read; the first: {skipped[0]}"
            )
        lines.writelines(json.dumps(earlier[photo]) + "\n" for photo in earlier if photo in again)
    if stopped is not None:
        raise stopped
    return Extraction(out, written, empty, skipped)


def save_map(
    mapped: Mapped, names: dict[Path, str], again: frozenset[str], base: Path, out: Path, views: Sequence[str],
    alpha: float,
) -> dict[str, Any]:  # fmt: skip
    """Write the views of a photo's map and return its line. again: photos that have views of an earlier run."""
    path = Path(str(mapped.source))
    photo, name = os.path.abspath(path), names[path]
    found = mapped.saliency_map(name)
    images = {kind: found.view(kind, alpha) for kind in views}
    mask, box = found.mask, found.box(alpha)
    if mask.shape != (mapped.height, mapped.width):  # the photo was opened at a reduced size
        mask = mapped.full_mask()
        box = None if is_flat(mask) else largest_box(binary_mask(mask, alpha))
        images |= {"mask": grey(mask)} if "mask" in views else {}
    saved = write_views(images, out, name)
    if is_dicom(path):
        write_dicom_mask(path, mask, dicom_mask(out, name))
    if photo in again:  # its other views show the mask of the earlier run
        for view in set(view_paths(out, name).values()) - set(saved):
            view.unlink(missing_ok=True)
    return {
        "photo": Path(photo).relative_to(base).as_posix(), "folder": str(base), "name": name,
        "width": mapped.width, "height": mapped.height, "box": None if box is None else list(box),
        "area": round(float(mask.mean(dtype=np.float64)), 4),
    }  # fmt: skip


def dicom_mask(folder: Path, name: str) -> Path:
    """The path of the DICOM mask of a DICOM file.

    >>> dicom_mask(Path("maps"), "scan").as_posix()
    'maps/scan-mask.dcm'
    """
    return folder / f"{file_name(name)}-mask{SUFFIX}"


def to_map(photos: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[list[Path], list[str]]:
    """Find the photos among files, folders and patterns; returns their paths and an error for each unsupported file.

    Maps that casmap wrote are not photos. A raw file next to its JPEG is ignored.
    """
    errors: list[str] = []
    paths = find_images([photos] if isinstance(photos, str | os.PathLike) else photos, errors)
    ours = set().union(*(map_files(folder) for folder in {path.parent for path in paths}))
    found = [path for path in paths if path not in ours]
    if not paths:
        raise UserError("No photos given: give files, folders or patterns.")
    if not found:
        raise UserError(f"All {len(paths)} images are maps that casmap wrote, such as {paths[0]}: give photos.")
    unsupported = [path for path in found if path.suffix.lower() in UNSUPPORTED_SUFFIXES]
    found = [path for path in found if path.suffix.lower() not in UNSUPPORTED_SUFFIXES]
    stems = {path.with_suffix("") for path in found}
    return found, errors + [
        f"{path} has an unsupported format{_heic_hint(path)}."
        for path in unsupported
        if path.with_suffix("") not in stems
    ]


def _heic_hint(path: Path) -> str:
    return f" (HEIC needs {install_hint('heic')})" if path.suffix.lower() in heic.SUFFIXES else ""
