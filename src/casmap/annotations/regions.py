"""Objects from what sources say of them, boxes, outlines and masks, and which of a photo's objects count."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.annotations.types import AnnotatedObject, Box, Kind, Mask, ObjectParser, PhotoRecord, Problem, Size, Skipped
from casmap.errors import UserError
from casmap.io.images import MAX_PIXELS, open_image

LONGEST_OUTLINE = 10**6  # pixels along a polygon: pycocotools takes memory for each of them


def four_numbers(values: Any) -> Box:
    """Four finite numbers, or texts that say numbers; all else raises Skipped."""
    try:
        one, two, three, four = (float(value) for value in values)
        if all(map(math.isfinite, (one, two, three, four))):
            return one, two, three, four
    except (TypeError, ValueError, OverflowError):
        pass
    raise Skipped(Kind.BOX_SKIPPED, "the box is not four numbers")


def object_from_box(name: str, values: Iterable[Any], **more: Any) -> AnnotatedObject:
    """An object that is no larger than its box: four numbers, or texts that say numbers; what is none raises Skipped.

    >>> object_from_box("cat", ["1", "2", "4", "6"])
    AnnotatedObject(name='cat', box=(1.0, 2.0, 4.0, 6.0), area=12.0, difficult=False, outline=None)
    """
    x0, y0, x1, y1 = four_numbers(values)
    if x1 <= x0 or y1 <= y0:
        raise Skipped(Kind.BOX_SKIPPED, f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} ends before it begins")
    return AnnotatedObject(name, (x0, y0, x1, y1), (x1 - x0) * (y1 - y0), **more)


def collect_objects(where: str, parsers: Iterable[ObjectParser], **more: Any) -> PhotoRecord:
    """The objects that can be made, and a problem of the photo or file `where` for each that cannot.

    >>> collect_objects("a.xml", [lambda: object_from_box("cat", "x")]).problems
    [Problem(kind=<Kind.BOX_SKIPPED: 'boxes left out'>, what='a.xml: the box is not four numbers')]
    """
    objects, problems = [], []
    for make in parsers:
        try:
            objects.append(make())
        except Skipped as bad:
            problems.append(bad.problem(where))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            problems.append(Problem(Kind.MALFORMED, f"{where}: a region that cannot be read"))
    return PhotoRecord(objects, problems=problems, **more)


def main_class(objects: Sequence[AnnotatedObject]) -> str | None:
    """The class of the largest object, which is the photo's where no folder says it; None where there is none.

    >>> main_class([AnnotatedObject("cat", (0, 0, 2, 2), 4), AnnotatedObject("dog", (0, 0, 3, 3), 9)])
    'dog'
    """
    named = [one for one in objects if one.name]
    sure = [one for one in named if not one.difficult] or named
    return max(sure, key=lambda one: one.area).name if sure else None


def of_class(objects: Sequence[AnnotatedObject], label: str, classes: Collection[str]) -> list[AnnotatedObject]:
    """The objects of the photo's class.

    Where none has its name, those whose names are no class at all: people label photos in the folder n02123045 "tabby".

    >>> objects = [AnnotatedObject("cat", (0, 0, 2, 2), 4), AnnotatedObject("dog", (0, 0, 3, 3), 9)]
    >>> [one.name for one in of_class(objects, "cat", {"cat", "dog"})]
    ['cat']
    """
    same = [one for one in objects if one.name == label] or [t for t in objects if t.name not in classes]
    return [one for one in same if not one.difficult] or same


def object_from_polygon(name: str, points: Iterable[tuple[float, float]]) -> AnnotatedObject:
    """An object by the points of its polygon.

    >>> object_from_polygon("cat", [(1, 0), (3, 0), (3, 2)]).box
    (1.0, 0.0, 3.0, 2.0)
    """
    across, down = zip(*points, strict=True)
    polygon = [number for point in zip(across, down, strict=True) for number in point]
    return object_from_box(name, (min(across), min(down), max(across), max(down)), outline=[polygon])


def record_from_regions(name: str, parsers: Iterable[ObjectParser], size: Size | None) -> PhotoRecord:
    """What is drawn in a photo: outlines, where there are any, else boxes: who draws both means the outline."""
    known = collect_objects(name, parsers, size=size if size and 0 < size[0] * size[1] <= MAX_PIXELS else None)
    if not (drawn := [one for one in known.objects if one.outline]):
        return known
    return replace(known, objects=drawn, mask=known.size and partial(mask_of, known.size, ()))


def mask_of(
    declared: Size, crowds: Sequence[AnnotatedObject], objects: Sequence[AnnotatedObject], size: Size
) -> Mask | None:
    """The union of the objects' outlines: (H, W); crowds of their classes are not counted."""
    if not objects or not all(one.outline for one in objects):
        return None  # boxes alone
    check_size(declared, size)  # before any memory is taken
    mask = np.zeros((size[1], size[0]), np.uint8)
    classes = {one.name for one in objects}
    for crowd in crowds:
        if crowd.name in classes and crowd.outline:
            mask[rasterize(crowd.outline, size)] = 128
    for one in objects:
        mask[rasterize(one.outline, size)] = 255
    return mask


def rasterize(outline: Any, size: Size) -> npt.NDArray[np.bool_]:
    """A segmentation of a photo of this size, a list of polygons or run lengths, as (H, W); raises Skipped if invalid.

    >>> rasterize([[1, 0, 3, 0, 3, 2, 1, 2]], (4, 2)).astype(int)
    array([[0, 1, 1, 0],
           [0, 1, 1, 0]])
    >>> rasterize({"size": [2, 3], "counts": [2, 3, 1]}, (3, 2)).astype(int)
    array([[0, 1, 1],
           [0, 1, 0]])
    """
    try:
        return _from_runs(outline, size) if isinstance(outline, dict) else _from_polygons(outline, size)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise Skipped(Kind.MASK_SKIPPED, "its segmentation is invalid") from error


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
        raise Skipped(Kind.MASK_SKIPPED, f"the mask {str(error).rstrip('.')}") from error


def check_size(mask: Size, photo: Size) -> None:
    """Refuse a mask of another size than its photo."""
    if mask != photo:
        raise Skipped(Kind.MASK_SIZE, f"the mask is {mask[0]} x {mask[1]}, the photo {photo[0]} x {photo[1]}")
