"""Objects of a mask: boxes, polygons and run-length encodings (RLE) for annotation tools."""

from typing import get_args

import cv2
import numpy as np
from pycocotools import mask as run_lengths

from casmap.annotations.format import Which
from casmap.annotations.labelled import Object, Polygon
from casmap.errors import UserError
from casmap.inference.components import Binary, Mask, Threshold, components, is_flat, tight_box

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
            part, (x0, y0, x1, y1), area = found.binary(each), found.boxes[each].tolist(), int(found.areas[each])
            rle = run_lengths.encode(np.asfortranarray(part.astype(np.uint8)))
            rle["counts"] = rle["counts"].decode()  # JSON has no bytes
            score = float(mask[part].mean(dtype=np.float64))
            objects.append(Object(label, (x0, y0, x1, y1), outline(part), rle, area, score))
    return objects


def outline(part: Binary) -> Polygon:
    """The polygon around a connected component (H, W), along the edges of its pixels.

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
