"""Extract: write the masks, overlays and boxes of many photos to a folder."""

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from casmap.errors import Stopped, UnreadableImage, UserError, option
from casmap.inference.components import Threshold
from casmap.inference.edges import Edges
from casmap.inference.map_folder import MapFolder, describe_options
from casmap.inference.mapper import SHIPPED, Mapped, SaliencyMapper, as_mapper
from casmap.inference.pipeline import BATCH, Pipeline, cores
from casmap.inference.views import VIEWS, encode_view, grey, view_paths
from casmap.install_hint import install_hint
from casmap.io import heic
from casmap.io.arrays import Window
from casmap.io.atomic import aside, write_aside
from casmap.io.dicom import SUFFIX, is_dicom, write_dicom_mask
from casmap.io.find import UNSUPPORTED_SUFFIXES, base_folder, find_images
from casmap.io.journal import Entry
from casmap.io.lock import locked
from casmap.io.names import file_name
from casmap.io.opener import Opener
from casmap.io.outputs import map_files
from casmap.reporting import SILENT, Reporter
from casmap.version import __version__


@dataclass(frozen=True)
class Extraction:
    """The result of `extract`.

    out: the folder. written: the number of maps. empty: how many of them have no object. skipped: one sentence for each
    photo that could not be mapped.
    """

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
    alpha: float | None = None,
    threshold: float | None = None,
    batch: int = BATCH,
    device: str = "cpu",
    edges: Edges | None = None,
    window: Window | None = None,
    reporter: Reporter = SILENT,
) -> Extraction:
    """Write the saliency maps of photos, given as files, folders and patterns, to the folder `out`.

    boxes.jsonl gets a line for each map: `photo` is relative to `folder`, the absolute path of the folder given (of
    several sources: of their common parent), so the photo is found from any working directory.

    Existing maps of other photos are kept, those of the same photos are replaced. A run that was killed or stopped
    loses no finished map; the same call continues it. Masks have the size of their photo. A large JPEG is opened at a
    reduced size, with a shorter side of at least 512 pixels, if only mask and overlay are requested: its overlay has
    that size, and its mask follows the edges of that size.

    threshold, alpha: as in `SaliencyMap`. edges: as in `load`. window: centre and width for DICOM; DICOM masks are also
    written as DICOM.
    """
    out, cut = Path(out), Threshold(alpha, threshold)
    if batch < 1:
        raise UserError(f"{option('batch')} must be at least 1, not {batch}.")
    views = [views] if isinstance(views, str) else views
    if unknown := [view for view in views if view not in VIEWS]:
        raise UserError(f"There is no view {unknown[0]!r}: choose from {', '.join(VIEWS)}.")
    photos = [photos] if isinstance(photos, str | os.PathLike) else list(photos)
    with locked(out, reporter), Opener(cores()) as opener:
        maps = MapFolder(out)
        paths, skipped = to_map(photos)
        opener.start(math.ceil(len(paths) / batch))  # they become ready while the mapping loads
        mapper = as_mapper(mapping, device, 1 if len(paths) > batch else None, edges)
        if mapper.caution:
            reporter.warning(mapper.caution)
        options = ""  # nothing says whether a mapper is the mapping of the run that was stopped
        if not isinstance(mapping, SaliencyMapper):
            options = describe_options(
                Path(mapping or SHIPPED), __version__, tuple(views), cut, batch, device, mapper.edges, window
            )
        left = maps.plan(paths, base_folder(photos), batch, options)
        if maps.lines:
            reporter.message(f"Continuing a stopped run: {len(maps.lines)} of {len(paths)} maps exist.")
        save = partial(save_map, maps=maps, views=views, cut=cut)
        whole = not set(views) <= {"mask", "overlay"}
        with Pipeline(left, mapper, save, batch, whole, window, "Extracting photos", reporter, opener) as pipeline:
            try:
                for done in pipeline:
                    maps.keep(done.made)
                    skipped += done.skipped
            except BaseException as error:  # also Ctrl-C: keep the finished maps
                for done in pipeline.rest():
                    with suppress(UserError):  # a full disk, again: `close` removes what is not finished
                        maps.keep(done.made)
                maps.close(stopped=True)
                if isinstance(error, KeyboardInterrupt):
                    count = f"{len(maps.lines)} of {len(paths)} maps are in {out}"
                    continued = "; run the same command to continue" if options else ""
                    raise Stopped(f"Stopped: {count}{continued}.") from error
                raise
        if not maps.lines:
            raise UserError(f"No photo could be read. The first error: {skipped[0]}")
        maps.close(stopped=False)
    return Extraction(out, len(maps.lines), sum(line["box"] is None for line in maps.lines.values()), skipped)


def save_map(mapped: Mapped, maps: MapFolder, views: Sequence[str], cut: Threshold) -> Entry:
    """Write the views of a photo's map under temporary names and return its entry, which says how to rename them."""
    path = Path(str(mapped.source))
    photo, name = os.path.abspath(path), maps.names[path]
    found = mapped.saliency_map(name)
    mask, box = found.mask, found.box(cut.alpha, cut.fixed)
    kinds = [kind for kind in views if kind != "cutout" or box is not None]
    images = {kind: found.view(kind, cut.alpha, cut.fixed) for kind in kinds}
    if mask.shape != (mapped.height, mapped.width):  # the photo was opened at a reduced size
        mask = mapped.full_mask()
        box = cut.box(mask)
        images |= {"mask": grey(mask)} if "mask" in views else {}
    final = view_paths(maps.out, name)
    files: dict[Path, Path] = {}
    try:
        for kind, image in images.items():
            if final[kind].is_dir():  # the one error of a single map that renaming its files can have
                raise UnreadableImage(f"Cannot write {final[kind]}: Is a directory.")
            files[write_aside(final[kind], encode_view(kind, image))] = final[kind]
        if is_dicom(path):
            with aside(dicom_mask(maps.out, name)) as temporary:
                write_dicom_mask(path, mask, temporary)
            files[temporary] = dicom_mask(maps.out, name)
    except BaseException:
        for temporary in files:
            temporary.unlink(missing_ok=True)
        raise
    line = {
        "photo": Path(photo).relative_to(maps.base).as_posix(), "folder": str(maps.base), "name": name,
        "width": mapped.width, "height": mapped.height, "box": None if box is None else list(box),
        "area": round(float(mask.mean(dtype=np.float64)), 4),
    }  # fmt: skip
    stale = {view.name for view in final.values()} - {view.name for view in files.values()}  # they show an earlier mask
    renamed = {temporary.name: view.name for temporary, view in files.items()}
    return Entry(line, maps.keys[photo], renamed, sorted(stale) if photo in maps.earlier else ())


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
