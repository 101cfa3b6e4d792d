"""Objects from what sources say of them, boxes, outlines and masks, and which of a photo's objects count."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.annotations.types import Box, Kind, Known, LeftOut, Maker, Mask, Problem, Size, Thing
from casmap.errors import UserError
from casmap.io.images import MAX_PIXELS, open_image

LONGEST_OUTLINE = 10**6  # pixels along a polygon: pycocotools takes memory for each of them


def four_numbers(values: Any) -> Box:
    """Four finite numbers, or texts that say numbers; all else raises LeftOut."""
    try:
        one, two, three, four = (float(value) for value in values)
        if all(map(math.isfinite, (one, two, three, four))):
            return one, two, three, four
    except (TypeError, ValueError, OverflowError):
        pass
    raise LeftOut(Kind.BOX_LEFT_OUT, "the box is not four numbers")


def boxed(name: str, values: Iterable[Any], **more: Any) -> Thing:
    """An object that is no larger than its box: four numbers, or texts that say numbers; what is none raises LeftOut.

    >>> boxed("cat", ["1", "2", "4", "6"])
    Thing(name='cat', box=(1.0, 2.0, 4.0, 6.0), area=12.0, doubtful=False, outline=None)
    """
    x0, y0, x1, y1 = four_numbers(values)
    if x1 <= x0 or y1 <= y0:
        raise LeftOut(Kind.BOX_LEFT_OUT, f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} ends before it begins")
    return Thing(name, (x0, y0, x1, y1), (x1 - x0) * (y1 - y0), **more)


def gather(where: str, makers: Iterable[Maker], **more: Any) -> Known:
    """The objects that can be made, and a problem of the photo or file `where` for each that cannot.

    >>> gather("a.xml", [lambda: boxed("cat", [1, 2, 3, 4]), lambda: boxed("cat", "x")]).problems
    [Problem(kind=<Kind.BOX_LEFT_OUT: 'boxes left out'>, what='a.xml: the box is not four numbers')]
    """
    things, problems = [], []
    for make in makers:
        try:
            things.append(make())
        except LeftOut as bad:
            problems.append(bad.problem(where))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            problems.append(Problem(Kind.MALFORMED, f"{where}: a region that cannot be read"))
    return Known(things, problems=problems, **more)


def main_class(things: Sequence[Thing]) -> str | None:
    """The class of the largest object, which is the photo's where no folder says it; None where there is none.

    >>> main_class([Thing("cat", (0, 0, 2, 2), 4), Thing("dog", (0, 0, 3, 3), 9)])
    'dog'
    """
    named = [thing for thing in things if thing.name]
    sure = [thing for thing in named if not thing.doubtful] or named
    return max(sure, key=lambda thing: thing.area).name if sure else None


def of_class(things: Sequence[Thing], label: str, classes: Collection[str]) -> list[Thing]:
    """The objects of the photo's class.

    Where none has its name, those whose names are no class at all: people label photos in the folder n02123045 "tabby".

    >>> things = [Thing("cat", (0, 0, 2, 2), 4), Thing("dog", (0, 0, 3, 3), 9)]
    >>> [thing.name for thing in of_class(things, "cat", {"cat", "dog"})]
    ['cat']
    """
    same = [thing for thing in things if thing.name == label] or [t for t in things if t.name not in classes]
    return [thing for thing in same if not thing.doubtful] or same


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
    whole = width * height
    if runs.ndim != 1 or runs.size == 0 or runs.min() < 0 or runs.max() > whole or runs.sum() != whole:
        raise ValueError("no run lengths, or none that fill the picture")
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
