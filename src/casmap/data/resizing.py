"""The supplement's two ways to make any photo square, for the photo and for what is known of it."""

from typing import Literal, assert_never

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation

Policy = Literal["crop", "squash"]


def resize(image: npt.NDArray[np.uint8], size: int, policy: Policy) -> npt.NDArray[np.uint8]:
    """Make a photo square: (H, W, 3) -> (size, size, 3).

    "crop": the shorter edge becomes `size`, the central square is kept. Shapes stay true, the ends of the photo go.
    "squash": both edges become `size`. Nothing goes, shapes are distorted.

    >>> resize(np.zeros((30, 40, 3), np.uint8), 20, "crop").shape
    (20, 20, 3)
    """
    top, left, height, width = _window(image.shape[0], image.shape[1], policy)
    window = image[top : top + height, left : left + width]
    # An edge that shrinks is averaged, so that nothing aliases; one that grows is interpolated; squashing may do both.
    smaller = cv2.resize(window, (min(width, size), min(height, size)), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(smaller, (size, size), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)


def resize_annotation(annotation: Annotation, height: int, width: int, size: int, policy: Policy) -> Annotation:
    """Move what is known of a (height, width) photo to where `resize` moves its pixels.

    Boxes are never clipped: what the crop cuts off still counts, as the paper's localization error demands.

    Mask and parts take, for each new pixel, the old one under its centre. So 0, 128 and 255 stay themselves, parts
    stay disjoint and inside the object, and a thin part keeps its share of pixels, where averaging and a threshold
    would lose all of a line that is narrower than half a new pixel.

    >>> photo = Annotation(np.array([[0.0, 0, 20, 30]]))
    >>> resize_annotation(photo, 30, 40, 15, "crop").boxes
    array([[-2.5,  0. ,  7.5, 15. ]])
    """
    top, left, window_height, window_width = _window(height, width, policy)
    origin = np.array([left, top, left, top], dtype=np.float64)
    scale = size / np.array([window_width, window_height, window_width, window_height], dtype=np.float64)
    rows, columns = top + _nearest(size, window_height)[:, None], left + _nearest(size, window_width)
    return Annotation(
        boxes=(annotation.boxes - origin) * scale,
        mask=None if annotation.mask is None else annotation.mask[rows, columns],
        parts=None if annotation.parts is None else annotation.parts[:, rows, columns],
    )


def _window(height: int, width: int, policy: Policy) -> tuple[int, int, int, int]:
    """Top, left, height and width of what is kept of the photo.

    Cropping before resizing keeps the same scene as resizing before cropping, has exactly one scale for both axes, and
    cannot blow up a photo of 1 x 10,000 pixels to two million columns.
    """
    if policy == "crop":
        side = min(height, width)
        return (height - side) // 2, (width - side) // 2, side, side
    if policy == "squash":
        return 0, 0, height, width
    assert_never(policy)


def _nearest(new: int, old: int) -> npt.NDArray[np.int64]:
    """For each of `new` pixels, the one of `old` pixels that lies under its centre: floor((i + 1/2) old / new)."""
    return (2 * np.arange(new, dtype=np.int64) + 1) * old // (2 * new)
