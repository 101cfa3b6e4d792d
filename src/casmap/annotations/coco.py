"""COCO's JSON files: boxes, and masks from polygons or run lengths."""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.annotations.masks import check_size
from casmap.annotations.types import (
    NOTHING,
    Annotations,
    Kind,
    Known,
    LeftOut,
    Mask,
    Names,
    Problem,
    Size,
    Thing,
    area,
    edges,
)
from casmap.errors import UserError
from casmap.io.images import MAX_PIXELS

LONGEST_OUTLINE = 10**6  # pixels along a polygon: pycocotools takes memory for each of them


def read_coco(path: Path, names: Names) -> Annotations:
    """An instances file; masks are drawn when their photo is looked at. Crowds count as no object, but in masks."""
    content = _load(path)
    problems: list[Problem] = []
    categories: dict[Any, str] = {}
    for entry in content["categories"]:
        try:
            categories[entry["id"]] = str(entry["name"])
        except (KeyError, TypeError):
            problems.append(Problem(Kind.MALFORMED, f"{path.name}: a category without id or name"))
    photos, sizes = _photos(path, content["images"], names, problems)
    things: dict[str, list[Thing]] = defaultdict(list)
    crowds: dict[str, list[Thing]] = defaultdict(list)
    wrong: dict[str, list[Problem]] = defaultdict(list)
    for number, entry in enumerate(content["annotations"]):
        try:
            if entry["image_id"] not in photos:
                problems.append(Problem(Kind.NO_PHOTO, f"{path.name}, annotation {number}: its image is not listed"))
                continue
            photo, category = photos[entry["image_id"]], categories[entry["category_id"]]
        except (KeyError, TypeError):
            problems.append(
                Problem(Kind.MALFORMED, f"{path.name}, annotation {number}: it has no image_id or no known category_id")
            )
            continue
        if photo is None:
            continue  # told once, with the image
        if entry.get("iscrowd"):
            crowds[photo].append(Thing(category, (0, 0, 0, 0), 0, outline=entry.get("segmentation")))
            continue
        try:
            thing = _thing(category, entry)
        except LeftOut as bad:
            wrong[photo].append(bad.problem(photo))
        else:
            things[photo].append(thing)

    def of(photo: str) -> Known:
        if photo not in sizes:
            return NOTHING
        size = sizes[photo]
        mask = None if size is None else partial(mask_of, size, crowds.get(photo, ()))
        return Known(things.get(photo, ()), size, mask=mask, problems=wrong.get(photo, ()))

    return Annotations("boxes and masks from a COCO file", of, problems=problems)


def _load(path: Path) -> dict[str, Any]:
    refusal = f"{path} must be a COCO file: JSON with lists of images, annotations and categories."
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = json.load(file)
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(refusal) from error
    lists = ("images", "annotations", "categories")
    if not isinstance(content, dict) or not all(isinstance(content.get(name), list) for name in lists):
        raise UserError(refusal)
    return content


def _photos(
    path: Path, entries: list[Any], names: Names, problems: list[Problem]
) -> tuple[dict[Any, str | None], dict[str, Size | None]]:
    """The photo of each image id, and the size that is given for each photo."""
    photos: dict[Any, str | None] = {}
    sizes: dict[str, Size | None] = {}
    for number, entry in enumerate(entries):
        try:
            name = photos[entry["id"]] = names.find(entry["file_name"])
            size = entry.get("width"), entry.get("height")
        except (KeyError, TypeError, AttributeError):
            problems.append(Problem(Kind.MALFORMED, f"{path.name}, image {number}: it has no id or no file_name"))
            continue
        if name is None:
            problems.append(Problem(Kind.NO_PHOTO, entry["file_name"]))
        else:
            whole = all(type(side) is int and side > 0 for side in size)
            sizes[name] = size if whole and size[0] * size[1] <= MAX_PIXELS else None
    return photos, sizes


def _thing(category: str, entry: dict[str, Any]) -> Thing:
    """An annotation that is no crowd; [x, y, width, height] becomes edges."""
    try:
        x, y, width, height = (float(number) for number in entry["bbox"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise LeftOut(Kind.BOX_LEFT_OUT, "the box is not four numbers") from error
    box = edges((x, y, x + width, y + height))
    given = entry.get("area")  # of the outline, which tells the size of an object better than its box
    size = float(given) if isinstance(given, int | float) and 0 < given < MAX_PIXELS else area(box)
    return Thing(category, box, size, outline=entry.get("segmentation"))


def mask_of(declared: Size, crowds: Sequence[Thing], things: Sequence[Thing], size: Size) -> Mask | None:
    """The union of the objects' outlines: (H, W); crowds of their classes are not counted."""
    if not things or not all(thing.outline for thing in things):
        return None  # boxes alone
    check_size(declared, size)  # before any memory is taken
    mask = np.zeros((size[1], size[0]), np.uint8)
    classes = {thing.name for thing in things}
    for crowd in crowds:
        if crowd.name in classes and crowd.outline:
            mask[draw(crowd.outline, size)] = 128
    for thing in things:
        mask[draw(thing.outline, size)] = 255
    return mask


def draw(outline: Any, size: Size) -> npt.NDArray[np.bool_]:
    """A segmentation of a photo of this size, a list of polygons or run lengths, as (H, W); raises LeftOut if invalid.

    >>> draw([[1, 0, 3, 0, 3, 2, 1, 2]], (4, 2)).astype(int)
    array([[0, 1, 1, 0],
           [0, 1, 1, 0]])
    >>> draw({"size": [2, 3], "counts": [2, 3, 1]}, (3, 2)).astype(int)
    array([[0, 1, 1],
           [0, 1, 0]])
    """
    try:
        return _from_runs(outline, size) if isinstance(outline, dict) else _from_polygons(outline, size)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise LeftOut(Kind.MASK_LEFT_OUT, "its segmentation is invalid") from error


def _from_runs(outline: dict[str, Any], size: Size) -> npt.NDArray[np.bool_]:
    """Run lengths, column by column, of background and object in turn.

    pycocotools would decode runs that end too early to whatever lies in memory, so they are laid out here.
    """
    width, height = size
    if list(outline["size"]) != [height, width]:
        raise ValueError("runs for another size")
    counts = outline["counts"]
    runs = np.array(_unpacked(counts) if isinstance(counts, str) else counts, dtype=np.int64)
    if runs.ndim != 1 or runs.size == 0 or runs.min() < 0 or runs.max() > width * height:
        raise ValueError("no run lengths")
    if runs.sum() != width * height:
        raise ValueError("runs that do not fill the picture")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def _unpacked(text: str) -> list[int]:
    """COCO's compressed run lengths: five bits a letter, each number from the third on less the one two before it."""
    runs: list[int] = []
    number = bits = 0
    for letter in text:
        five = ord(letter) - 48
        if not 0 <= five < 64 or bits > 30:
            raise ValueError("no run lengths")
        number |= (five & 31) << bits
        bits += 5
        if five & 32:  # more to come
            continue
        if five & 16:  # the sign
            number -= 1 << bits
        runs.append(number + runs[-2] if len(runs) > 2 else number)
        number = bits = 0
    if bits:
        raise ValueError("the last number has no end")
    return runs


def _from_polygons(outline: Any, size: Size) -> npt.NDArray[np.bool_]:
    from pycocotools import mask as coco

    width, height = size
    for polygon in outline:
        points = np.array(polygon, dtype=np.float64).reshape(-1, 2)
        # pycocotools takes four numbers for a box, and memory for every pixel along the outline, inside or outside.
        if len(points) < 3 or not (np.abs(points) < 2 * max(size)).all():
            raise ValueError("no polygon of this picture")
        if np.abs(np.diff(points, axis=0, append=points[:1])).max(axis=1).sum() > LONGEST_OUTLINE:
            raise ValueError("too long an outline")
    runs = coco.frPyObjects([[float(number) for number in polygon] for polygon in outline], height, width)
    return _from_runs({"size": [height, width], "counts": coco.merge(runs)["counts"].decode()}, size)
