"""Extract: write the masks, overlays and boxes of many photos to a folder."""

import hashlib
import math
import os
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from casmap.errors import Stopped, UserError
from casmap.inference.components import binary_mask, is_flat, largest_box
from casmap.inference.mapper import SHIPPED, Mapped, SaliencyMapper
from casmap.inference.pipeline import BATCH, Finished, Pipeline, cores
from casmap.inference.views import VIEWS, encode_view, grey, view_paths
from casmap.install_hint import install_hint
from casmap.io import heic
from casmap.io.arrays import Window
from casmap.io.atomic import aside, remove_temporary_files, whole_file
from casmap.io.dicom import SUFFIX, is_dicom, write_dicom_mask
from casmap.io.find import UNSUPPORTED_SUFFIXES, base_folder, find_images
from casmap.io.journal import MAP_ENDINGS, Entry, record, recover, restart, to_json
from casmap.io.lock import locked
from casmap.io.names import file_name, unique_names
from casmap.io.opener import Opener
from casmap.io.outputs import BOXES, map_files, read_boxes
from casmap.reporting import SILENT, Reporter
from casmap.version import __version__


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

    Existing maps of other photos are kept, those of the same photos are replaced. A run that was killed or stopped
    loses no finished map; the same call continues it. window: centre and width for DICOM; DICOM masks are also written
    as DICOM. Masks have the size of their photo; the overlay of a large JPEG is smaller, unless views other than mask
    and overlay are requested.
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
    recovered = recover(out)  # of a run that was killed or stopped
    remove_temporary_files(out)
    paths, skipped = to_map(photos)
    opener.start(math.ceil(len(paths) / batch))  # they become ready while the mapping loads
    earlier = read_boxes(out / BOXES) | {entry.photo: entry.line for entry in recovered}  # by absolute path
    if isinstance(mapping, SaliencyMapper):
        mapper, options = mapping, ""  # of a mapping without a file, nothing says whether it is the same
    else:
        mapper = SaliencyMapper.load(mapping, device, threads=1 if len(paths) > batch else None)
        options = _digest(Path(mapping or SHIPPED), __version__, tuple(views), alpha, batch, device, window)
    keys = {os.path.abspath(path): _key(options, path) for path in paths}
    finished = {entry.photo: entry for entry in recovered if entry.key and entry.key == keys.get(entry.photo)}
    if recovered:
        _write_boxes(out, earlier.values())
        restart(out, list(finished.values()))
    # Batches are repeated as a whole: the rounding of a mask depends on the photos beside it.
    batches = [paths[at : at + batch] for at in range(0, len(paths), batch)]
    todo = [path for one in batches if not {*map(os.path.abspath, one)} <= finished.keys() for path in one]
    lines = {photo: entry.line for photo, entry in finished.items()}
    for path in todo:
        lines.pop(os.path.abspath(path), None)
    beside = {folder for folder in {path.parent for path in paths} if os.path.samefile(folder, out)}
    own = [path.name for path in paths if path.parent in beside]  # no map may replace a photo
    taken = {name.removesuffix(f"-{ending}") for name in own for ending in MAP_ENDINGS if name.endswith(f"-{ending}")}
    names = unique_names(paths, {photo: line["name"] for photo, line in earlier.items()}, taken)
    base = base_folder(photos)
    save = partial(save_map, names=names, earlier=earlier, keys=keys, base=base, out=out, views=views, alpha=alpha)
    whole = not set(views) <= {"mask", "overlay"}
    stopped: BaseException | None = None

    def keep(done: Finished[Entry]) -> None:
        record(out, done.made)
        lines.update((entry.photo, entry.line) for entry in done.made)
        skipped.extend(done.skipped)

    with Pipeline(todo, mapper, save, batch, whole, window, "extracting", reporter, opener) as pipeline:
        try:
            for done in pipeline:
                keep(done)
        except BaseException as error:  # also Ctrl-C: record the finished maps, then raise again
            stopped = error
            for done in pipeline.rest():
                keep(done)
    if stopped is not None:  # perhaps in the middle of `keep`: the journal knows
        lines = {entry.photo: entry.line for entry in recover(out)}
        remove_temporary_files(out)
    elif not lines:
        raise UserError(
            f"No photo could be read: {skipped[0]}"
            if len(skipped) == 1
            else f"None of {len(skipped)} photos could be read; the first: {skipped[0]}"
        )
    others = (line for photo, line in earlier.items() if photo not in keys)
    unread = (line for photo, line in earlier.items() if photo in keys and photo not in lines)
    _write_boxes(out, chain(others, (lines[photo] for photo in keys if photo in lines), unread))
    if isinstance(stopped, KeyboardInterrupt):
        count = f"{len(lines)} of {len(paths)} maps are in {out}"
        raise Stopped(f"Stopped: {count}; run the same command to continue.") from stopped
    if stopped is not None:
        raise stopped
    restart(out, [])
    return Extraction(out, len(lines), sum(line["box"] is None for line in lines.values()), skipped)


def _write_boxes(out: Path, lines: Iterable[dict[str, Any]]) -> None:
    with whole_file(out / BOXES) as temporary, open(temporary, "w") as file:
        file.writelines(f"{to_json(line)}\n" for line in lines)


def _digest(mapping: Path, *options: object) -> str:
    """A short hash of all that maps depend on besides their photos."""
    return hashlib.sha256(mapping.read_bytes() + repr(options).encode()).hexdigest()[:16]


def _key(options: str, path: Path) -> str:
    """What the map of a photo depends on, for a run that continues another; "" if unknown."""
    try:
        about = path.stat()
    except OSError:
        return ""
    return f"{options} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}" if options else ""


def save_map(
    mapped: Mapped, names: dict[Path, str], earlier: Container[str], keys: dict[str, str], base: Path, out: Path,
    views: Sequence[str], alpha: float,
) -> Entry:  # fmt: skip
    """Write the views of a photo's map under temporary names and return its entry, which says how to rename them.

    earlier: photos that have views of an earlier run.
    """
    path = Path(str(mapped.source))
    photo, name = os.path.abspath(path), names[path]
    found = mapped.saliency_map(name)
    images = {kind: found.view(kind, alpha) for kind in views}
    mask, box = found.mask, found.box(alpha)
    if mask.shape != (mapped.height, mapped.width):  # the photo was opened at a reduced size
        mask = mapped.full_mask()
        box = None if is_flat(mask) else largest_box(binary_mask(mask, alpha))
        images |= {"mask": grey(mask)} if "mask" in views else {}
    final = view_paths(out, name)
    files: dict[Path, Path] = {}
    try:
        for kind, image in images.items():
            with aside(final[kind]) as temporary:
                temporary.write_bytes(encode_view(kind, image))
            files[temporary] = final[kind]
        if is_dicom(path):
            with aside(dicom_mask(out, name)) as temporary:
                write_dicom_mask(path, mask, temporary)
            files[temporary] = dicom_mask(out, name)
    except BaseException:
        for temporary in files:
            temporary.unlink(missing_ok=True)
        raise
    line = {
        "photo": Path(photo).relative_to(base).as_posix(), "folder": str(base), "name": name,
        "width": mapped.width, "height": mapped.height, "box": None if box is None else list(box),
        "area": round(float(mask.mean(dtype=np.float64)), 4),
    }  # fmt: skip
    # The other views of an earlier run show its mask.
    stale = {view.name for view in final.values()} - {view.name for view in files.values()} if photo in earlier else ()
    renamed = {temporary.name: view.name for temporary, view in files.items()}
    return Entry(line, keys[photo], renamed, sorted(stale))


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
