"""Make photos and their annotations square: in the two ways of the paper's supplement, and in the field's way."""

from typing import Literal, assert_never

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation

Policy = Literal["crop", "squash", "squash and crop"]
SQUASHED, KEPT = 256, 224  # the sides of "squash and crop", for any size in this ratio


def resize(image: npt.NDArray[np.uint8], size: int, policy: Policy) -> npt.NDArray[np.uint8]:
    """Make a photo square: (H, W, 3) -> (size, size, 3).

    "crop": the shorter edge becomes `size` and the central square is kept. The aspect ratio is kept, the ends are lost.
    "squash": both edges become `size`. Nothing is lost, but the aspect ratio changes.
    "squash and crop": both edges become 256 / 224 `size` and the central square is kept.

    >>> resize(np.zeros((30, 40, 3), np.uint8), 20, "crop").shape
    (20, 20, 3)
    """
    if policy == "squash and crop":
        squashed, margin = _squashed(size)
        return resize(image, squashed, "squash")[margin : margin + size, margin : margin + size]
    top, left, height, width = _window(image.shape[0], image.shape[1], policy)
    window = image[top : top + height, left : left + width]
    # Average along an edge that shrinks, to avoid aliasing; interpolate along one that grows; squashing may do both.
    smaller = cv2.resize(window, (min(width, size), min(height, size)), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(smaller, (size, size), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)


def resize_annotation(annotation: Annotation, height: int, width: int, size: int, policy: Policy) -> Annotation:
    """Transform the annotation of a (height, width) photo as `resize` transforms its pixels.

    Boxes are not clipped: the area outside the crop still counts, as the paper's localization error requires. Only
    "squash and crop" clips them to the crop, as the papers that use it do; what lies outside becomes an empty box.

    In mask and parts, each new pixel has the value of the old pixel under its centre. So the values stay 0, 128 and
    255, parts stay disjoint and inside the object, and a thin part keeps its share of pixels; averaging with a
    threshold would lose every line narrower than half a new pixel.

    >>> photo = Annotation(np.array([[0.0, 0, 20, 30]]))
    >>> resize_annotation(photo, 30, 40, 15, "crop").boxes
    array([[-2.5,  0. ,  7.5, 15. ]])
    >>> resize_annotation(photo, 30, 40, 224, "squash and crop").boxes  # 0 to 128 and 0 to 256, minus 16, clipped
    array([[  0.,   0., 112., 224.]])
    """
    if policy == "squash and crop":
        squashed, margin = _squashed(size)
        whole, kept = resize_annotation(annotation, height, width, squashed, "squash"), slice(margin, margin + size)
        return Annotation(
            boxes=(whole.boxes - margin).clip(0, size),
            mask=None if whole.mask is None else whole.mask[kept, kept],
            parts=None if whole.parts is None else whole.parts[:, kept, kept],
        )
    top, left, window_height, window_width = _window(height, width, policy)
    origin = np.array([left, top, left, top], dtype=np.float64)
    scale = size / np.array([window_width, window_height, window_width, window_height], dtype=np.float64)
    rows, columns = top + _nearest(size, window_height)[:, None], left + _nearest(size, window_width)
    return Annotation(
        boxes=(annotation.boxes - origin) * scale,
        mask=None if annotation.mask is None else annotation.mask[rows, columns],
        parts=None if annotation.parts is None else annotation.parts[:, rows, columns],
    )


def _squashed(size: int) -> tuple[int, int]:
    """Return the side of the squashed photo, and how much of it is cut off at each edge to keep `size`.

    >>> _squashed(224), _squashed(160)
    ((256, 16), (182, 11))
    """
    margin = round(size * (SQUASHED - KEPT) / KEPT / 2)
    return size + 2 * margin, margin


def _window(height: int, width: int, policy: Literal["crop", "squash"]) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the part of the photo that is kept.

    Cropping before resizing keeps the same part as resizing before cropping, has exactly one scale for both axes, and
    does not enlarge a photo of 1 x 10,000 pixels to two million columns.
    """
    if policy == "crop":
        side = min(height, width)
        return (height - side) // 2, (width - side) // 2, side, side
    if policy == "squash":
        return 0, 0, height, width
    assert_never(policy)


def _nearest(new: int, old: int) -> npt.NDArray[np.int64]:
    """Return, for each of `new` pixels, the one of `old` pixels under its centre: floor((i + 1/2) old / new)."""
    return (2 * np.arange(new, dtype=np.int64) + 1) * old // (2 * new)
