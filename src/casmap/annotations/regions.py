"""Make objects from boxes, outlines and masks, and select the objects of a photo's class."""

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
from casmap.io.images import open_image
from casmap.io.names import read_name
from casmap.io.reading import is_inside
from casmap.io.size_limits import MAX_PIXELS

MAX_OUTLINE = 10**6  # pixels along a polygon: pycocotools uses memory for each of them
SAME, ROUNDING = 0.9, 2.0  # a box is that of an outline: IoU of at least this, or edges within these pixels
MAX_EDGE = 10**9  # pixels: no photo is larger, and larger numbers overflow in computations


def four_numbers(values: Any) -> Box:
    """Convert four values, numbers or texts, to finite numbers; raise Skipped if that is impossible.

    >>> four_numbers(["1", 2, 3.5, "4"])
    (1.0, 2.0, 3.5, 4.0)
    """
    try:
        one, two, three, four = (float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        one = two = three = four = math.nan
    if not all(map(math.isfinite, (one, two, three, four))):
        raise Skipped(Kind.BOX_SKIPPED, "the box is not four numbers")
    if max(abs(one), abs(two), abs(three), abs(four)) > MAX_EDGE:
        raise Skipped(Kind.BOX_SKIPPED, f"the box has a number above {MAX_EDGE:,}")
    return one, two, three, four


def object_from_box(name: str, values: Iterable[Any], **more: Any) -> AnnotatedObject:
    """Make an object from its box, the edges x0, y0, x1, y1 as numbers or texts; raise Skipped if they are invalid.

    >>> object_from_box("cat", ["1", "2", "4", "6"])
    AnnotatedObject(name='cat', box=(1.0, 2.0, 4.0, 6.0), area=12.0, difficult=False, outline=None)
    """
    x0, y0, x1, y1 = four_numbers(values)
    if x1 <= x0 or y1 <= y0:
        raise Skipped(Kind.BOX_SKIPPED, f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} does not have x0 < x1 and y0 < y1")
    return AnnotatedObject(read_name(name), (x0, y0, x1, y1), (x1 - x0) * (y1 - y0), **more)


def collect_objects(name: str, parsers: Iterable[ObjectParser], **more: Any) -> PhotoRecord:
    """Run the parsers of a photo's objects; add a problem with `name`, the photo or file, for each that fails.

    >>> collect_objects("a.xml", [lambda: object_from_box("cat", "x")]).problems
    [Problem(kind=<Kind.BOX_SKIPPED: 'boxes left out'>, what='a.xml: the box is not four numbers')]
    """
    objects, problems = [], []
    for parse in parsers:
        try:
            objects.append(parse())
        except Skipped as skipped:
            problems.append(skipped.problem(name))
        except Exception:  # an entry of a file of others can raise anything
            problems.append(Problem(Kind.MALFORMED, f"{name}: an object cannot be read"))
    return PhotoRecord(objects, problems=problems, **more)


def main_class(objects: Sequence[AnnotatedObject]) -> str | None:
    """Return the class of the largest object, which is the class of a photo in no class folder, or None.

    >>> main_class([AnnotatedObject("cat", (0, 0, 2, 2), 4), AnnotatedObject("dog", (0, 0, 3, 3), 9)])
    'dog'
    """
    named = [one for one in objects if one.name]
    counted = [one for one in named if not one.difficult] or named
    return max(counted, key=lambda one: one.area).name if counted else None


def of_class(objects: Sequence[AnnotatedObject], label: str, classes: Collection[str]) -> list[AnnotatedObject]:
    """Return the objects of the photo's class `label`.

    If none has this name, return those whose names are no class of the set: objects in the class folder n02123045 may
    be named "tabby".

    >>> objects = [AnnotatedObject("cat", (0, 0, 2, 2), 4), AnnotatedObject("dog", (0, 0, 3, 3), 9)]
    >>> [one.name for one in of_class(objects, "cat", {"cat", "dog"})]
    ['cat']
    """
    same = [one for one in objects if one.name == label] or [t for t in objects if t.name not in classes]
    return [one for one in same if not one.difficult] or same


def object_from_polygon(name: str, points: Iterable[tuple[float, float]], **more: Any) -> AnnotatedObject:
    """Make an object from the points of its polygon.

    >>> object_from_polygon("cat", [(1, 0), (3, 0), (3, 2)]).box
    (1.0, 0.0, 3.0, 2.0)
    """
    across, down = zip(*points, strict=True)
    polygon = [number for point in zip(across, down, strict=True) for number in point]
    return object_from_box(name, (min(across), min(down), max(across), max(down)), outline=[polygon], **more)


def object_from_mask(name: str, mask: npt.NDArray[np.bool_]) -> AnnotatedObject:
    """Make an object from its pixels (H, W); raise Skipped if there are none.

    >>> found = object_from_mask("cat", np.array([[False, True, True], [False, True, False]]))
    >>> found.box, found.area, found.outline
    ((1.0, 0.0, 3.0, 2.0), 3.0, {'size': [2, 3], 'counts': '231'})
    """
    from pycocotools import mask as coco

    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if not columns.size:
        raise Skipped(Kind.BOX_SKIPPED, "the mask is empty")
    runs = coco.encode(np.asfortranarray(mask, np.uint8))
    box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
    outline = {"size": list(mask.shape), "counts": runs["counts"].decode()}
    return replace(object_from_box(name, box, outline=outline), area=float(mask.sum()))


def record_from_regions(name: str, parsers: Iterable[ObjectParser], size: Size | None) -> PhotoRecord:
    """Make the record of a photo from its regions; an object may have a box, an outline, or one of each.

    If any region has an outline, boxes of other objects are ignored.
    """
    known = collect_objects(name, parsers, size=size if size and 0 < size[0] * size[1] <= MAX_PIXELS else None)
    if not (outlined := [one for one in known.objects if one.outline]):
        return known
    objects = _with_own_boxes(outlined, [one for one in known.objects if not one.outline])
    return replace(known, objects=objects, mask=known.size and partial(mask_of, known.size, ()))


def _with_own_boxes(outlined: list[AnnotatedObject], boxes: list[AnnotatedObject]) -> list[AnnotatedObject]:
    """Give each outline the box of the same object: that of its class that overlaps it most.

    A box does not replace that of an outline which a person changed, if nobody changed the box.
    """
    pairs = [
        (box_iou(one.box, other.box), at, of)
        for at, one in enumerate(outlined)
        for of, other in enumerate(boxes)
        if one.name == other.name
    ]
    found, used = list(outlined), set[int]()
    for iou, at, of in sorted(pairs, reverse=True):
        if found[at] is not outlined[at] or of in used or (iou == 0 and len(pairs) > 1):
            continue
        used.add(of)
        box = outlined[at].box if outlined[at].edited and not boxes[of].edited else boxes[of].box
        found[at] = replace(outlined[at], box=box)
    return found


def box_iou(one: Box, other: Box) -> float:
    """The IoU of two boxes.

    >>> box_iou((0, 0, 2, 2), (0, 0, 2, 1)), box_iou((0, 0, 1, 1), (5, 5, 6, 6))
    (0.5, 0.0)
    """
    across, down = (min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (0, 1))
    shared = max(0.0, across) * max(0.0, down)
    areas = ((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (one, other))
    return shared / max(sum(areas) - shared, 1e-12)


def box_was_edited(one: AnnotatedObject, size: Size) -> bool:
    """Return whether an object has an outline that its box clearly does not fit: somebody changed the box alone.

    size: of the photo, for run lengths. Nothing is said about an outline that is invalid.

    >>> box_was_edited(object_from_box("cat", (0, 0, 30, 20), outline=[[0, 0, 20, 0, 20, 20]]), (40, 40))
    True
    >>> box_was_edited(object_from_box("cat", (0, 0, 21, 20), outline=[[0, 0, 20, 0, 20, 20]]), (40, 40))
    False
    """
    if not one.outline:
        return False
    try:
        if isinstance(one.outline, dict):
            found = object_from_mask(one.name, rasterize(one.outline, size)).box
        else:
            points = np.concatenate([np.array(part, np.float64).reshape(-1, 2) for part in one.outline])
            found = four_numbers([*points.min(axis=0), *points.max(axis=0)])
    except Exception:  # a segmentation of others can be anything; `rasterize` refuses it
        return False
    apart = max(abs(a - b) for a, b in zip(found, one.box, strict=True))
    return apart > ROUNDING and box_iou(found, one.box) < SAME


def mask_of(
    declared: Size, crowds: Sequence[AnnotatedObject], objects: Sequence[AnnotatedObject], size: Size
) -> Mask | None:
    """Return the union of the objects' outlines as a mask (H, W); crowds of their classes become 128, not counted."""
    if not objects or not all(one.outline for one in objects):
        return None  # boxes alone
    check_size(declared, size)  # before memory is allocated
    mask = np.zeros((size[1], size[0]), np.uint8)
    classes = {one.name for one in objects}
    for crowd in crowds:
        if crowd.name in classes and crowd.outline:
            mask[rasterize(crowd.outline, size)] = 128
    for one in objects:
        mask[rasterize(one.outline, size)] = 255
    return mask


def rasterize(outline: Any, size: Size) -> npt.NDArray[np.bool_]:
    """Draw a segmentation, a list of polygons or run lengths, as (H, W) for size (W, H); raise Skipped if invalid.

    >>> rasterize([[1, 0, 3, 0, 3, 2, 1, 2]], (4, 2)).astype(int)
    array([[0, 1, 1, 0],
           [0, 1, 1, 0]])
    >>> rasterize({"size": [2, 3], "counts": [2, 3, 1]}, (3, 2)).astype(int)
    array([[0, 1, 1],
           [0, 1, 0]])
    """
    try:
        return _from_runs(outline, size) if isinstance(outline, dict) else _from_polygons(outline, size)
    except Exception as error:  # a segmentation of others can be anything
        raise Skipped(Kind.MASK_SKIPPED, "its segmentation is invalid") from error


def _from_runs(outline: dict[str, Any], size: Size) -> npt.NDArray[np.bool_]:
    """Draw run lengths: background and object in turn, column by column.

    Not with pycocotools, which returns uninitialised memory for runs that are too short.
    """
    width, height = size
    if list(outline["size"]) != [height, width]:
        raise ValueError("runs for another size")
    counts = outline["counts"]
    runs = np.array(_decode_runs(counts) if isinstance(counts, str) else counts, dtype=np.int64)
    whole = width * height
    if runs.ndim != 1 or runs.size == 0 or runs.min() < 0 or runs.max() > whole or runs.sum() != whole:
        raise ValueError("the run lengths do not add up to the size")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height).T


def _decode_runs(text: str) -> list[int]:
    """Decode COCO's compressed run lengths: five bits per character; from the third number on, differences."""
    runs: list[int] = []
    number = bits = 0
    for letter in text:
        five = ord(letter) - 48
        if not 0 <= five < 64 or bits > 30:
            raise ValueError("invalid run lengths")
        number |= (five & 31) << bits
        bits += 5
        if five & 32:  # the number continues
            continue
        if five & 16:  # the sign
            number -= 1 << bits
        runs.append(number + runs[-2] if len(runs) > 2 else number)
        number = bits = 0
    if bits:
        raise ValueError("the last number is incomplete")
    return runs


def _from_polygons(outline: Any, size: Size) -> npt.NDArray[np.bool_]:
    from pycocotools import mask as coco

    width, height = size
    for polygon in outline:
        points = np.array(polygon, dtype=np.float64).reshape(-1, 2)
        # pycocotools reads four numbers as a box, and uses memory for every pixel along the outline, even outside.
        if len(points) < 3 or not (np.abs(points) < 2 * max(size)).all():
            raise ValueError("not a polygon in this photo")
        if np.abs(np.diff(points, axis=0, append=points[:1])).max(axis=1).sum() > MAX_OUTLINE:
            raise ValueError("the outline is too long")
    runs = coco.frPyObjects([[float(number) for number in polygon] for polygon in outline], height, width)
    return _from_runs({"size": [height, width], "counts": coco.merge(runs)["counts"].decode()}, size)


def open_mask(path: Path, folder: Path) -> Mask:
    """Open an image file, found in `folder`, as a mask, its first channel: (H, W)."""
    if not is_inside(path, folder):
        raise Skipped(Kind.MASK_SKIPPED, f"the mask {path.name} is a link that leads out of {folder}")
    try:
        return open_image(path)[..., 0]
    except UserError as error:
        raise Skipped(Kind.MASK_SKIPPED, f"the mask {str(error).rstrip('.')}") from error


def check_size(mask: Size, photo: Size) -> None:
    """Raise Skipped if a mask and its photo differ in size."""
    if mask != photo:
        raise Skipped(Kind.MASK_SIZE, f"the mask is {mask[0]} x {mask[1]}, the photo {photo[0]} x {photo[1]}")
