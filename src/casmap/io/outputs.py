"""Recognise what casmap itself wrote, so that its maps and runs are not taken for photos."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from casmap.errors import UserError
from casmap.io.names import file_name
from casmap.io.reading import MAX_ANNOTATIONS, read_bytes, reading

BOXES = "boxes.jsonl"  # one line for each map in a folder
RECIPE = "recipe.json"  # of a training run
WRITTEN = b"# written by casmap\n"  # the last line of YOLO's data.yaml
# How the names of a map's files end, after the name in its line.
MAP_ENDINGS = ("mask.png", "mask.dcm", "overlay.jpg", "masked-in.png", "masked-out.png", "inpainted.png")


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
        with reading(path, f"{path}: line {number} was not written by casmap; choose another --out."):
            line = json.loads(text)
            photo = os.path.abspath(os.path.join(line.get("folder", ""), line["photo"]))
            found[photo] = {**line, "name": str(line["name"])}
    return found


def map_files(folder: Path) -> set[Path]:
    """Return the files of all maps that the boxes.jsonl of a folder lists, whether they exist or not.

    >>> map_files(Path("missing"))
    set()
    """
    with suppress(UserError):  # a boxes.jsonl of another program lists no maps
        names = {file_name(line["name"]) for line in read_boxes(folder / BOXES).values()}
        return {folder / f"{name}-{ending}" for name in names for ending in MAP_ENDINGS}
    return set()


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
