"""Recognise what casmap itself wrote, so that its maps and runs are not taken for photos."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from casmap.errors import UserError, option
from casmap.io.journal import from_json, map_names, photo_of, read_journal
from casmap.io.reading import MAX_ANNOTATIONS, read_bytes, reading

BOXES = "boxes.jsonl"  # one line for each map in a folder
RECIPE = "recipe.json"  # of a training run
WRITTEN = b"# written by casmap\n"  # the last line of YOLO's data.yaml


def read_boxes(path: Path) -> dict[str, dict[str, Any]]:
    """Read the lines of a boxes.jsonl by the absolute path of their photo; no lines if there is no such file.

    A line's `photo` is relative to its `folder`. The lines of casmap 0.1.0 have an absolute `photo` and no `folder`.

    >>> read_boxes(Path("missing/boxes.jsonl"))
    {}
    """
    if not path.is_file():
        return {}
    found = {}
    with reading(path):
        content = read_bytes(path, MAX_ANNOTATIONS)
    for number, text in enumerate(content.splitlines(), 1):
        with reading(
            path, f"{path}: line {number} was not written by casmap; choose another folder ({option('out')})."
        ):
            line = from_json(text)
            found[photo_of(line)] = line
    return found


def map_files(folder: Path) -> set[Path]:
    """Return the files of all maps that a folder's boxes.jsonl and journal list, whether they exist or not.

    >>> map_files(Path("missing"))
    set()
    """
    names = {entry.line["name"] for entry in read_journal(folder)}
    with suppress(UserError):  # a boxes.jsonl of another program lists no maps
        names |= {line["name"] for line in read_boxes(folder / BOXES).values()}
    return {folder / file for name in names for file in map_names(name)}


def is_output(folder: Path) -> bool:
    """Return whether a folder is a training run or a data set that casmap wrote; its images are no new photos.

    >>> is_output(Path("missing"))
    False
    """
    for name in ("data.yaml", "ImageSets/Main/all.txt"):  # casmap annotate --format yolo, voc
        with suppress(OSError), open(folder / name, "rb") as file:
            file.seek(-min(len(WRITTEN), file.seek(0, os.SEEK_END)), os.SEEK_END)
            if file.read() == WRITTEN or (name.endswith("all.txt") and (folder / "Annotations").is_dir()):
                return True
    if not (folder / RECIPE).is_file():
        return False
    with suppress(UserError), reading(folder / RECIPE):  # the recipe.json of another program is no run
        recipe = json.loads(read_bytes(folder / RECIPE))
        return isinstance(recipe, dict) and {"backbone", "steps"} <= recipe.keys()
    return False
