"""Extract: many photos in, a folder of masks, overlays and boxes out."""

import json
import os
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from casmap.atomic import whole_file
from casmap.errors import UnreadableImage, UserError
from casmap.images import MAPS, Image, find_images, open_image
from casmap.mapper import SaliencyMapper
from casmap.saliency_map import file_name

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
) -> tuple[list[str], int, int]:
    """Write the maps of all photos found; returns a sentence for each one skipped, and how many are written and empty.

    Maps of other photos that are in the folder already stay there; those of the same photos are replaced.
    """
    paths = find_images(sources)
    earlier = lines_of(out / MAPS)
    mapper = SaliencyMapper.load(mapping, device)
    names = unique_names(paths, {os.path.abspath(line["photo"]): line["name"] for line in earlier})
    skipped: list[str] = []
    written = empty = 0
    with whole_file(out / MAPS) as aside, open(aside, "w") as lines:
        again = {os.path.abspath(path) for path in paths}
        lines.writelines(json.dumps(line) + "\n" for line in earlier if os.path.abspath(line["photo"]) not in again)
        with Progress(console=console or Console(quiet=True), transient=True) as bar:
            task = bar.add_task("extracting", total=len(paths))
            for at in range(0, len(paths), batch):
                opened: list[tuple[Path, Image]] = []
                for path in paths[at : at + batch]:
                    try:
                        opened.append((path, open_image(path)))
                    except UnreadableImage as error:
                        skipped.append(str(error))
                maps = mapper([image for _, image in opened])
                for (path, _), found in zip(opened, maps, strict=True):
                    found = replace(found, name=names[path])
                    found.save(out, everything, alpha)
                    lines.write(json.dumps({"photo": str(path), **found.to_dict(alpha)}) + "\n")
                    written += 1
                    empty += found.area < EMPTY
                bar.update(task, advance=len(paths[at : at + batch]))
        if not written:
            raise UserError(f"None of the {len(paths)} photos can be read; the first: {skipped[0]}")
    return skipped, written, empty


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
            found.append({**line, "photo": str(line["photo"]), "name": str(line["name"])})
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
