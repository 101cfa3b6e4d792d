"""Extract: many photos in, a folder of masks, overlays and boxes out."""

import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from casmap.atomic import whole_file
from casmap.dicom import SUFFIX, Window, is_dicom, write_dicom_mask
from casmap.errors import UnreadableImage, UserError
from casmap.images import FOREIGN_SUFFIXES, Image, find_images, open_image
from casmap.mapper import SaliencyMapper
from casmap.saliency_map import file_name, view_paths

BOXES = "boxes.jsonl"
EMPTY = 0.001  # a mask with less area than this marks nothing


def extract_photos(
    sources: list[str],
    mapping: Path | None,
    out: Path,
    everything: bool = False,
    alpha: float = 1.0,
    batch: int = 16,
    device: str = "cpu",
    console: Console | None = None,
    window: Window | None = None,
) -> tuple[list[str], int, int]:
    """Write the maps of all photos found; returns a sentence for each one skipped, and how many are written and empty.

    Maps of other photos that are in the folder already stay there; those of the same photos are replaced. Lines and
    maps agree even where it is stopped halfway. window: for DICOM, whose masks are written as DICOM, too.
    """
    paths, skipped = to_map(find_images(sources))
    earlier = {line["photo"]: line for line in lines_of(out / BOXES)}
    mapper = SaliencyMapper.load(mapping, device)
    names = unique_names(paths, {photo: line["name"] for photo, line in earlier.items()})
    again = {os.path.abspath(path) for path in paths} & earlier.keys()
    written = empty = 0
    stopped: BaseException | None = None
    with whole_file(out / BOXES) as aside, open(aside, "w") as lines:
        lines.writelines(json.dumps(line) + "\n" for photo, line in earlier.items() if photo not in again)
        try:
            with Progress(console=console or Console(quiet=True), transient=True) as bar:
                task = bar.add_task("extracting", total=len(paths))
                for at in range(0, len(paths), batch):
                    opened: list[tuple[Path, Image]] = []
                    for path in paths[at : at + batch]:
                        try:
                            opened.append((path, open_image(path, window)))
                        except UnreadableImage as error:
                            skipped.append(str(error))
                    maps = mapper([image for _, image in opened])
                    for (path, _), found in zip(opened, maps, strict=True):
                        photo = os.path.abspath(path)
                        found = replace(found, name=names[path])
                        saved = found.save(out, everything, alpha)
                        if is_dicom(path):
                            write_dicom_mask(path, found.mask, dicom_mask(out, found.name))
                        if photo in again:  # other views of its earlier map would show another mask
                            for view in set(view_paths(out, found.name).values()) - set(saved):
                                view.unlink(missing_ok=True)
                            again.remove(photo)
                        lines.write(json.dumps({"photo": photo, **found.to_dict(alpha)}) + "\n")
                        written += 1
                        empty += found.area < EMPTY
                    bar.update(task, advance=len(paths[at : at + batch]))
        except BaseException as error:  # Ctrl-C, too: what is done is told, and then the error goes on
            stopped = error
        if stopped is None and not written:
            raise UserError(f"None of the {len(paths) or len(skipped)} photos can be read; the first: {skipped[0]}")
        lines.writelines(json.dumps(earlier[photo]) + "\n" for photo in earlier if photo in again)
    if stopped is not None:
        raise stopped
    return skipped, written, empty


def dicom_mask(folder: Path, name: str) -> Path:
    """Where the mask of a DICOM file is written, as DICOM, beside the pictures.

    >>> dicom_mask(Path("maps"), "scan").as_posix()
    'maps/scan-mask.dcm'
    """
    return folder / f"{file_name(name)}-mask{SUFFIX}"


def to_map(paths: list[Path]) -> tuple[list[Path], list[str]]:
    """The photos among the files found, and a sentence for each that is of a kind that is not opened.

    Maps that casmap wrote are no photos; a raw file beside its JPEG is passed over.
    """
    ours: set[Path] = set()
    for folder in {path.parent for path in paths}:
        with suppress(UserError):  # a boxes.jsonl of somebody else names no maps
            for line in lines_of(folder / BOXES):
                ours.update(view_paths(folder, line["name"]).values())
                ours.add(dicom_mask(folder, line["name"]))
    photos = [path for path in paths if path not in ours]
    if not photos:
        raise UserError(f"All of the {len(paths)} pictures are maps that casmap wrote; the first: {paths[0]}.")
    foreign = [path for path in photos if path.suffix.lower() in FOREIGN_SUFFIXES]
    photos = [path for path in photos if path.suffix.lower() not in FOREIGN_SUFFIXES]
    twins = {path.with_suffix("") for path in photos}
    return photos, [
        f"{path} is of a kind that casmap does not open." for path in foreign if path.with_suffix("") not in twins
    ]


def lines_of(boxes: Path) -> list[dict[str, Any]]:
    """The lines of a boxes.jsonl, each with its photo and its name; none where there is no such file.

    >>> lines_of(Path("missing/boxes.jsonl"))
    []
    """
    if not boxes.exists():
        return []
    found = []
    for number, text in enumerate(boxes.read_bytes().splitlines(), 1):
        try:
            line = json.loads(text)
            found.append({**line, "photo": os.path.abspath(line["photo"]), "name": str(line["name"])})
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{boxes}: line {number} is not one that casmap writes; choose another --out.") from None
    return found


def unique_names(paths: list[Path], earlier: dict[str, str] | None = None) -> dict[Path, str]:
    """A name for each photo's files: its own; its folder's before it, then a number, where photos share one.

    Photos of `earlier`, by their absolute paths, have their names already.

    >>> paths = [Path("a/cat.jpg"), Path("b/cat.jpg"), Path("b/cat.png"), Path("b/dog.jpg")]
    >>> list(unique_names(paths).values())
    ['a-cat', 'b-cat', 'b-cat-2', 'dog']
    """
    earlier = earlier or {}
    whole = {path: os.path.abspath(path) for path in paths}
    stems = Counter(file_name(path.stem) for path in paths)
    taken = set(earlier.values())
    alone = {stem for stem, uses in stems.items() if uses == 1} - taken
    taken |= alone
    names = {}
    for path in paths:
        stem = file_name(path.stem)
        if whole[path] in earlier:
            names[path] = earlier[whole[path]]
        elif stem in alone:
            names[path] = stem
        else:
            wanted = f"{file_name(Path(whole[path]).parent.name)}-{stem}"
            names[path] = next(name for n in count(1) if (name := wanted if n == 1 else f"{wanted}-{n}") not in taken)
            taken.add(names[path])
    return names
