"""The pictures of a map: heat on the photo, what is kept, what is left, and what inpainting makes of the rest."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.inference.components import Binary, Box, Mask
from casmap.io.atomic import write_whole
from casmap.io.images import Image, encode_jpeg, encode_png
from casmap.io.names import file_name

MASKED = np.uint8(128)  # shown where pixels are taken away: the network sees the mean colour there
HEAT = 0.6  # how much of the photo the heat hides where the mask is 1
_OPAQUE = HEAT * np.linspace(0, 1, 256)[:, None]
_COLOURS = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_INFERNO).reshape(256, 3)[:, ::-1]
# For each of 256 levels of the mask: how much of the photo is left, of 255, and what the heat adds to it.
STAYS = np.rint(255 * (1 - _OPAQUE)).astype(np.uint8).repeat(3, axis=1)[None]
GLOWS = np.rint(_OPAQUE * _COLOURS).astype(np.uint8)[None]
INPAINT_RADIUS = 3
INPAINT_SIDE = 1024
VIEWS = ("mask", "overlay", "masked-in", "masked-out", "inpainted")  # as they end the names of files
LOOKED_AT = ("overlay",)  # written as JPEG: a fifth of the time and of the size of a PNG


def draw_overlay(photo: Image, mask: Mask, box: Box | None) -> Image:
    """Lay a mask (H, W) as heat on a photo (H, W, 3), and draw a box: (H, W, 3).

    The heat is as opaque as the mask is high: the rest of the photo stays as it is.
    """
    levels = cv2.cvtColor(grey(mask), cv2.COLOR_GRAY2RGB)
    shown = cv2.add(cv2.multiply(photo, cv2.LUT(levels, STAYS), scale=1 / 255), cv2.LUT(levels, GLOWS))
    if box is not None:
        x0, y0, x1, y1 = box
        thickness = max(1, round(min(mask.shape) / 150))
        cv2.rectangle(shown, (x0, y0), (x1 - 1, y1 - 1), (255, 255, 255), thickness)
    return np.asarray(shown, np.uint8)


def inpaint(photo: Image, hole: Binary) -> Image | None:
    """Fill a hole (H, W) of a photo (H, W, 3) from its surroundings with Telea's algorithm; None: nothing is left."""
    # Half of a 12-megapixel photo takes Telea 9 s, and what it fills in is smooth: fill a small copy instead.
    small = shrunk(photo, INPAINT_SIDE / max(hole.shape))
    # A small pixel is known only if all that it covers is, or it would carry the object's colour into the filling.
    small_hole = shrunk(hole.astype(np.float32), INPAINT_SIDE / max(hole.shape)) > 0
    if small_hole.all():  # OpenCV would give the photo back, object and all
        return None
    filled = cv2.inpaint(small, small_hole.astype(np.uint8), INPAINT_RADIUS, cv2.INPAINT_TELEA)
    filled = cv2.resize(filled, hole.shape[::-1], interpolation=cv2.INTER_LINEAR)
    return np.where(hole[..., None], np.asarray(filled, np.uint8), photo)


def grey(mask: Mask) -> Image:
    """A mask (H, W) in 8 bits.

    >>> grey(np.array([[0.0, 0.5, 1.0]], np.float32)).tolist()
    [[0, 128, 255]]
    """
    return np.asarray(cv2.convertScaleAbs(mask, alpha=255), np.uint8)


def write_views(views: dict[str, Image], folder: str | Path, name: str) -> list[Path]:
    """Write views by their kind, each whole or not at all; gives the paths."""
    paths = view_paths(folder, name)
    for kind, view in views.items():
        write_whole(paths[kind], encode_jpeg(view) if kind in LOOKED_AT else encode_png(view))
    return [paths[kind] for kind in views]


def view_paths(folder: str | Path, name: str) -> dict[str, Path]:
    """The files of a map with this name, each view's by its kind.

    >>> view_paths("maps", "cat")["masked-in"].as_posix()
    'maps/cat-masked-in.png'
    """
    begin = Path(folder) / file_name(name)
    return {kind: begin.with_name(f"{begin.name}-{kind}.{'jpg' if kind in LOOKED_AT else 'png'}") for kind in VIEWS}


def shrunk(array: npt.NDArray[Any], scale: float) -> npt.NDArray[Any]:
    """Shrink (H, W[, C]) by averaging; never enlarge."""
    if scale >= 1:
        return array
    height, width = array.shape[:2]
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(array, size, interpolation=cv2.INTER_AREA), array.dtype)
