"""The views of a saliency map: overlay, masked-in, masked-out and inpainted images, and the cutout."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.inference.components import Binary, Box, Mask
from casmap.io.atomic import write_whole
from casmap.io.images import Image, encode_jpeg, encode_png
from casmap.io.names import file_name

MASKED = np.uint8(128)  # grey shown for removed pixels; the network gets the mean colour there
HEAT = 0.6  # opacity of the heat map where the mask is 1
_OPAQUE = HEAT * np.linspace(0, 1, 256)[:, None]
_COLOURS = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_INFERNO).reshape(256, 3)[:, ::-1]
# For each of 256 levels of the mask: the weight of the photo (0 to 255) and the colour that the heat map adds.
PHOTO_WEIGHTS = np.rint(255 * (1 - _OPAQUE)).astype(np.uint8).repeat(3, axis=1)[None]
HEAT_COLOURS = np.rint(_OPAQUE * _COLOURS).astype(np.uint8)[None]
INPAINT_RADIUS = 3
INPAINT_SIDE = 1024
EDGE = 2.0  # pixels across the edge of a cutout in which its opacity rises from 0 to 1
VIEWS = ("mask", "overlay", "masked-in", "masked-out", "inpainted", "cutout")  # also the endings of file names
AS_JPEG = ("overlay",)  # a JPEG takes a fifth of the time and of the size of a PNG


def draw_overlay(photo: Image, mask: Mask, box: Box | None) -> Image:
    """Blend a mask (H, W) as a heat map over a photo (H, W, 3) and draw a box: (H, W, 3).

    Opacity is proportional to the mask: where the mask is 0, the photo is unchanged.
    """
    levels = cv2.cvtColor(grey(mask), cv2.COLOR_GRAY2RGB)
    shown = cv2.add(cv2.multiply(photo, cv2.LUT(levels, PHOTO_WEIGHTS), scale=1 / 255), cv2.LUT(levels, HEAT_COLOURS))
    if box is not None:
        x0, y0, x1, y1 = box
        thickness = max(1, round(min(mask.shape) / 150))
        cv2.rectangle(shown, (x0, y0), (x1 - 1, y1 - 1), (255, 255, 255), thickness)
    return np.asarray(shown, np.uint8)


def inpaint(photo: Image, hole: Binary) -> Image | None:
    """Fill a hole (H, W) of a photo (H, W, 3) with Telea's algorithm; None if no pixel lies outside the hole."""
    # Filling half of a 12-megapixel photo takes 9 s and gives a smooth result: fill a small copy instead.
    small = shrunk(photo, INPAINT_SIDE / max(hole.shape))
    # A pixel of the copy is outside the hole only if all pixels it covers are: no colour of the object gets in.
    small_hole = shrunk(hole.astype(np.float32), INPAINT_SIDE / max(hole.shape)) > 0
    if small_hole.all():  # OpenCV would return the photo unchanged
        return None
    filled = cv2.inpaint(small, small_hole.astype(np.uint8), INPAINT_RADIUS, cv2.INPAINT_TELEA)
    filled = cv2.resize(filled, hole.shape[::-1], interpolation=cv2.INTER_LINEAR)
    return np.where(hole[..., None], np.asarray(filled, np.uint8), photo)


def opacity(mask: Mask, part: Binary, level: float) -> Image:
    """The opacity (H, W) of an object, a component of m >= level in a mask (H, W): 128 to 255 inside, below it outside.

    (m - level) / |∇m| is about the distance to the edge in pixels. Opacity rises with it, from 0 to 1 in two pixels
    across the edge, so the edge has no steps, and no haze where the mask falls slowly.

    >>> opacity(np.array([[0.1, 0.3, 0.45, 0.6, 0.8]], np.float32), np.array([[False, False, False, True, True]]), 0.5)
    array([[  0,   0,  85, 200, 255]], dtype=uint8)
    """
    across, down = (
        cv2.Sobel(mask, cv2.CV_32F, *axis, ksize=1, scale=0.5, borderType=cv2.BORDER_REPLICATE)
        for axis in ((1, 0), (0, 1))
    )
    slope = np.maximum(cv2.magnitude(across, down), np.float32(1e-6))
    share = 0.5 + (mask - np.float32(level)) / (np.float32(EDGE) * slope)
    near = cv2.dilate(part.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    inside = np.clip(np.rint(255 * share), 128, 255)
    outside = np.where(near, np.clip(np.rint(255 * share), 0, 127), 0)
    return np.where(part, inside, outside).astype(np.uint8)


def grey(mask: Mask) -> Image:
    """Convert a mask (H, W) to 8 bits.

    >>> grey(np.array([[0.0, 0.5, 1.0]], np.float32)).tolist()
    [[0, 128, 255]]
    """
    return np.asarray(cv2.convertScaleAbs(mask, alpha=255), np.uint8)


def write_views(views: dict[str, Image], folder: str | Path, name: str) -> list[Path]:
    """Write views, given by kind, and return their paths. Each file is written atomically."""
    paths = view_paths(folder, name)
    for kind, view in views.items():
        write_whole(paths[kind], encode_view(kind, view))
    return [paths[kind] for kind in views]


def encode_view(kind: str, view: Image) -> bytes:
    """The content of the file of a view.

    >>> encode_view("mask", np.zeros((2, 3), np.uint8))[1:4]
    b'PNG'
    """
    return encode_jpeg(view) if kind in AS_JPEG else encode_png(view)


def view_paths(folder: str | Path, name: str) -> dict[str, Path]:
    """The files of the saliency map with this name, by kind of view.

    >>> view_paths("maps", "cat")["masked-in"].as_posix()
    'maps/cat-masked-in.png'
    """
    base = Path(folder) / file_name(name)
    return {kind: base.with_name(f"{base.name}-{kind}.{'jpg' if kind in AS_JPEG else 'png'}") for kind in VIEWS}


def shrunk(array: npt.NDArray[Any], scale: float) -> npt.NDArray[Any]:
    """Shrink an array (H, W[, C]) by averaging; a scale of 1 or more returns it unchanged."""
    if scale >= 1:
        return array
    height, width = array.shape[:2]
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(array, size, interpolation=cv2.INTER_AREA), array.dtype)
