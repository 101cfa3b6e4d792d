"""Masks from picture files, and from outlines as COCO writes them: polygons and run lengths, in their photo's size."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.annotations.types import Kind, Known, LeftOut, Maker, Mask, Size, Thing, boxed, gather
from casmap.errors import UserError
from casmap.io.images import MAX_PIXELS, open_image

LONGEST_OUTLINE = 10**6  # pixels along a polygon: pycocotools takes memory for each of them


def outlined(name: str, points: Iterable[tuple[float, float]]) -> Thing:
    """An object by the points of its polygon.

    >>> outlined("cat", [(1, 0), (3, 0), (3, 2)]).box
    (1.0, 0.0, 3.0, 2.0)
    """
    across, down = zip(*points, strict=True)
    polygon = [number for point in zip(across, down, strict=True) for number in point]
    return boxed(name, (min(across), min(down), max(across), max(down)), outline=[polygon])


def outlines_or_boxes(name: str, makers: Iterable[Maker], size: Size | None) -> Known:
    """What is drawn in a photo: outlines, where there are any, else boxes: who draws both means the outline."""
    known = gather(name, makers, size=size if size and 0 < size[0] * size[1] <= MAX_PIXELS else None)
    if not (drawn := [thing for thing in known.things if thing.outline]):
        return known
    return replace(known, things=drawn, mask=known.size and partial(mask_of, known.size, ()))


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


def open_mask(path: Path) -> Mask:
    """A picture's first channel: (H, W)."""
    try:
        return open_image(path)[..., 0]
    except UserError as error:
        raise LeftOut(Kind.MASK_LEFT_OUT, f"the mask {str(error).rstrip('.')}") from error


def check_size(mask: Size, photo: Size) -> None:
    """Refuse a mask of another size than its photo."""
    if mask != photo:
        raise LeftOut(Kind.MASK_SIZE, f"the mask is {mask[0]} x {mask[1]}, the photo {photo[0]} x {photo[1]}")
