"""Objects of a mask: boxes, polygons and run-length encodings (RLE) for annotation tools."""

from collections.abc import Callable, Sequence
from typing import get_args

import cv2
import numpy as np
from pycocotools import mask as run_lengths

from casmap.annotations.format import Which
from casmap.annotations.labelled import Object, Polygon
from casmap.errors import UserError
from casmap.inference.components import Binary, Box, Mask, Threshold, components, is_flat, tight_box

SMALLEST = 0.01  # share of the photo: smaller components are not objects by default
DEFAULT = Threshold()
TOLERANCE = 1.0  # pixels by which a polygon may deviate from the outline


def objects_of(
    mask: Mask, label: str, which: Which = "largest", min_area: float = SMALLEST, threshold: Threshold = DEFAULT
) -> list[Object]:
    """The largest object of a mask (H, W), or all objects, largest first.

    min_area: the smallest area of an object, as a share of the mask. A mask that is flat, or below the threshold
    everywhere, marks no object.

    >>> mask = np.zeros((20, 30), np.float32)
    >>> mask[2:10, 4:12], mask[12:16, 20:28] = 1.0, 0.5
    >>> [(one.box, one.area, one.score) for one in objects_of(mask, "cat", "all")]
    [((4, 2, 12, 10), 64, 1.0), ((20, 12, 28, 16), 32, 0.5)]
    """
    if which not in get_args(Which):
        raise UserError(f"which must be largest or all, not {which!r}.")
    if is_flat(mask):
        return []
    found = components(threshold.binary(mask))
    order = sorted(range(len(found.areas)), key=lambda each: (-found.areas[each], each != found.largest))
    objects = []
    for each in order[: 1 if which == "largest" else None]:
        if found.areas[each] >= min_area * mask.size:
            x0, y0, x1, y1 = found.boxes[each].tolist()
            objects.append(_object(mask, label, (x0, y0, x1, y1), found.binary(each)))
    return objects


def objects_in(
    mask: Mask, label: str, boxes: Sequence[Box], threshold: Threshold = DEFAULT, check: Callable[[], object] = bool
) -> list[Object]:
    """The objects of a mask (H, W) in boxes that somebody has corrected or drawn, in their order.

    An object has the pixels of the component with its box, or else those of the binary mask inside its box, or else all
    of its box. check: called before each object; it may raise an error to end the work.

    >>> mask = np.zeros((20, 30), np.float32)
    >>> mask[2:10, 4:12] = 1.0
    >>> [(one.box, one.area) for one in objects_in(mask, "cat", [(4, 2, 12, 10), (0, 0, 8, 6), (20, 0, 22, 3)])]
    [((4, 2, 12, 10), 64), ((0, 0, 8, 6), 16), ((20, 0, 22, 3), 6)]
    """
    height, width = mask.shape
    binary = threshold.binary(mask)
    found = components(binary)
    # Of components with the same box, the largest is the one that an object has.
    known = {tuple(found.boxes[each].tolist()): each for each in np.argsort(found.areas, kind="stable").tolist()}
    objects = []
    for box in boxes:
        check()
        x0, y0, x1, y1 = box
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
            raise UserError(f"The box {x0}, {y0}, {x1}, {y1} is empty or not inside the photo of {width} x {height}.")
        part = np.zeros_like(binary)
        inside = np.s_[y0:y1, x0:x1]
        part[inside] = found.binary(known[box])[inside] if box in known else binary[inside]
        if not part.any():
            part[inside] = True
        objects.append(_object(mask, label, box, part))
    return objects


def _object(mask: Mask, label: str, box: Box, part: Binary) -> Object:
    rle = run_lengths.encode(np.asfortranarray(part.astype(np.uint8)))
    rle["counts"] = rle["counts"].decode()  # JSON has no bytes
    score = float(mask[part].mean(dtype=np.float64))
    return Object(label, box, outline(part), rle, int(np.count_nonzero(part)), score)


def outline(part: Binary) -> Polygon:
    """The polygon around a connected component (H, W), or the one with the longest outline, along its pixels' edges.

    OpenCV traces pixel centres. At twice the size these lie a quarter of an original pixel inside the edges.

    >>> mask = np.zeros((9, 9), bool)
    >>> mask[2:6, 3:8] = True
    >>> sorted(outline(mask))
    [(3.25, 2.25), (3.25, 5.75), (7.75, 2.25), (7.75, 5.75)]
    """
    x0, y0, x1, y1 = tight_box(part) or (0, 0, 0, 0)
    doubled = part[y0:y1, x0:x1].astype(np.uint8).repeat(2, axis=0).repeat(2, axis=1)
    contours, _ = cv2.findContours(doubled, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    longest = max(contours, key=len)
    corners = cv2.approxPolyDP(longest, 2 * TOLERANCE, closed=True)
    if len(corners) < 3:  # a line of pixels: use its box
        right, bottom = 2 * (x1 - x0) - 1, 2 * (y1 - y0) - 1
        corners = np.array([[[0, 0]], [[right, 0]], [[right, bottom]], [[0, bottom]]])
    return [(x0 + (float(x) + 0.5) / 2, y0 + (float(y) + 0.5) / 2) for x, y in corners[:, 0]]
