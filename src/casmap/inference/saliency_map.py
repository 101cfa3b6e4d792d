"""The answer for one photo: its soft mask, and the views of it that the paper defines."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.io.atomic import write_whole
from casmap.io.images import Image, encode_jpeg, encode_png
from casmap.io.names import file_name

Mask = npt.NDArray[np.float32]
Binary = npt.NDArray[np.bool_]
Box = tuple[int, int, int, int]  # x0, y0, x1, y1, as edges: x1 - x0 is the width

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
STRIP_HEIGHT = 256
STRIP_GAP = 4


def binary_mask(mask: npt.ArrayLike, alpha: float = 1.0) -> Binary:
    """Discretize masks (..., H, W) as the paper does: b = 1 where m >= alpha * mean(m), each by its own mean.

    With alpha up to 1 no binary mask is empty; that of a constant mask is full.

    >>> binary_mask([[0.1, 0.2], [0.3, 1.0]]).tolist()
    [[False, False], [False, True]]
    """
    # The mean of equal float32 numbers is exact in float64: rounding would empty a constant mask.
    mask = np.asarray(mask, np.float32)
    threshold = alpha * mask.mean((-2, -1), dtype=np.float64, keepdims=True)
    return np.asarray(mask >= threshold)


def largest_component(binary: Binary) -> Binary:
    """Keep the largest 8-connected component of (H, W); of equal ones, the first in reading order.

    >>> largest_component(np.array([[True, False, True], [False, False, True]])).tolist()
    [[False, False, True], [False, False, True]]
    """
    labels, _, largest = _components(binary)
    return np.asarray(labels == largest)


def largest_box(binary: Binary) -> Box | None:
    """The tightest box around the largest component of (H, W), as `tight_box` gives it.

    >>> largest_box(np.array([[True, False, True], [False, False, True]]))
    (2, 0, 3, 2)
    """
    _, stats, largest = _components(binary)
    if largest < 0:
        return None
    left, top, width, height = (int(number) for number in stats[largest, :4])
    return left, top, left + width, top + height


def _components(binary: Binary) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int]:
    """Number the 8-connected components (H, W), with statistics (n, 5), and say which is the largest; -1: none is."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(binary.astype(np.uint8), connectivity=8)
    areas = stats[1:, cv2.CC_STAT_AREA]  # the background, which is no component, comes first
    if len(areas) == 0:
        return labels, stats, -1
    largest = 1 + np.flatnonzero(areas == areas.max())
    if len(largest) == 1:
        return labels, stats, int(largest[0])
    inside = np.isin(labels, largest)  # OpenCV does not number components in reading order
    return labels, stats, int(labels.flat[inside.argmax()])


def tight_box(binary: Binary) -> Box | None:
    """Give the tightest box x0, y0, x1, y1 around (H, W) as edges: x1 - x0 is its width; None around nothing.

    >>> tight_box(np.array([[False, True, True], [False, False, False]]))
    (1, 0, 3, 1)
    """
    columns, rows = np.flatnonzero(binary.any(axis=0)), np.flatnonzero(binary.any(axis=1))
    if columns.size == 0:
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


@dataclass(frozen=True, eq=False)
class SaliencyMap:
    """A photo (H, W, 3) uint8 and its mask (H, W) float32 in [0, 1]: 1 where the evidence for its class is.

    Every view takes alpha, the level of the binary mask relative to the mask's mean; 1 is the paper's.

    >>> photo, mask = np.zeros((2, 3, 3), np.uint8), np.array([[0, 0.9, 0.9], [0, 0, 0]])
    >>> found = SaliencyMap(photo, mask, name="cat")
    >>> found.box()
    (1, 0, 3, 1)
    >>> found
    SaliencyMap(name='cat')
    """

    photo: Image = field(repr=False)
    mask: Mask = field(repr=False)
    name: str = "photo"
    _boxes: dict[float, Box | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.photo.dtype != np.uint8 or self.photo.ndim != 3 or self.photo.shape[2] != 3 or self.photo.size == 0:
            raise ValueError(f"a photo is (H, W, 3) uint8, not {self.photo.shape} {self.photo.dtype}")
        if self.mask.shape != self.photo.shape[:2]:
            raise ValueError(f"the mask is {self.mask.shape}, its photo {self.photo.shape[:2]}")
        if not (self.mask.min() > -1e-3 and self.mask.max() < 1 + 1e-3):  # put so that NaN fails too
            raise ValueError("the mask leaves [0, 1]")
        # Interpolation may overshoot by a rounding error.
        object.__setattr__(self, "mask", np.clip(self.mask, 0, 1).astype(np.float32))

    @property
    def area(self) -> float:
        """The mean of the mask: how much of the photo is evidence.

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 0.5]])).area
        0.25
        """
        return float(self.mask.mean(dtype=np.float64))

    def binary(self, alpha: float = 1.0) -> Binary:
        """Discretize the mask: (H, W).

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 0.5]])).binary().tolist()
        [[False, True]]
        """
        return binary_mask(self.mask, alpha)

    def connected(self, alpha: float = 1.0) -> Binary:
        """Keep the dominant object, the largest component of the binary mask: (H, W).

        >>> SaliencyMap(np.zeros((1, 4, 3), np.uint8), np.array([[1.0, 0, 1, 1]])).connected().tolist()
        [[False, False, True, True]]
        """
        return largest_component(self.binary(alpha))

    def box(self, alpha: float = 1.0) -> Box | None:
        """Give the tightest box x0, y0, x1, y1 around the dominant object, as edges in the photo's pixels.

        >>> SaliencyMap(np.zeros((1, 4, 3), np.uint8), np.array([[1.0, 0, 1, 1]])).box()
        (2, 0, 4, 1)
        """
        if alpha not in self._boxes:  # views and lines ask for the same one again
            self._boxes[alpha] = largest_box(self.binary(alpha))
        return self._boxes[alpha]

    def masked_in(self, alpha: float = 1.0) -> Image:
        """Show only the evidence, b * x: (H, W, 3).

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 1.0]])).masked_in().tolist()
        [[[128, 128, 128], [0, 0, 0]]]
        """
        return np.where(self.binary(alpha)[..., None], self.photo, MASKED)

    def masked_out(self, alpha: float = 1.0) -> Image:
        """Show all but the evidence, (1 - b) * x: (H, W, 3).

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 1.0]])).masked_out().tolist()
        [[[0, 0, 0], [128, 128, 128]]]
        """
        return np.where(self.binary(alpha)[..., None], MASKED, self.photo)

    def inpainted(self, alpha: float = 1.0) -> Image:
        """Fill the masked-out pixels from their surroundings with Telea's algorithm: (H, W, 3).

        >>> photo = np.full((8, 8, 3), 50, np.uint8)
        >>> photo[3, 3] = 255
        >>> bool(SaliencyMap(photo, (photo[..., 0] == 255).astype(np.float32)).inpainted().max() < 60)
        True
        """
        hole = self.binary(alpha)
        # Half of a 12-megapixel photo takes Telea 9 s, and what it fills in is smooth: fill a small copy instead.
        small = _resized(self.photo, INPAINT_SIDE / max(hole.shape))
        # A small pixel is known only if all that it covers is, or it would carry the object's colour into the filling.
        small_hole = _resized(hole.astype(np.float32), INPAINT_SIDE / max(hole.shape)) > 0
        if small_hole.all():  # OpenCV would give the photo back, object and all
            return self.masked_out(alpha)
        filled = cv2.inpaint(small, small_hole.astype(np.uint8), INPAINT_RADIUS, cv2.INPAINT_TELEA)
        filled = cv2.resize(filled, hole.shape[::-1], interpolation=cv2.INTER_LINEAR)
        return np.where(hole[..., None], np.asarray(filled, np.uint8), self.photo)

    def overlay(self, alpha: float = 1.0) -> Image:
        """Lay the mask as heat on the photo and draw the box: (H, W, 3).

        >>> SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4)).overlay().shape
        (4, 4, 3)
        """
        # The heat is as opaque as the mask is high: the rest of the photo stays as it is.
        levels = cv2.cvtColor(grey(self.mask), cv2.COLOR_GRAY2RGB)
        shown = cv2.add(cv2.multiply(self.photo, cv2.LUT(levels, STAYS), scale=1 / 255), cv2.LUT(levels, GLOWS))
        box = self.box(alpha)
        if box is not None:
            x0, y0, x1, y1 = box
            thickness = max(1, round(min(self.mask.shape) / 150))
            cv2.rectangle(shown, (x0, y0), (x1 - 1, y1 - 1), (255, 255, 255), thickness)
        return np.asarray(shown, np.uint8)

    def strip(self, alpha: float = 1.0) -> Image:
        """Put photo, overlay, masked-in, masked-out and inpainted side by side, at most 256 pixels high.

        >>> SaliencyMap(np.zeros((500, 500, 3), np.uint8), np.zeros((500, 500))).strip().shape
        (256, 1296, 3)
        """
        scale = STRIP_HEIGHT / self.photo.shape[0]
        small = SaliencyMap(_resized(self.photo, scale), _resized(self.mask, scale))
        views = [small.overlay(alpha), small.masked_in(alpha), small.masked_out(alpha), small.inpainted(alpha)]
        gap = np.full((small.photo.shape[0], STRIP_GAP, 3), 255, np.uint8)
        return np.hstack([small.photo, *(part for view in views for part in (gap, view))])

    def save(self, folder: str | Path, everything: bool = False, alpha: float = 1.0) -> list[Path]:
        """Write `<name>-mask.png` (grey) and `<name>-overlay.jpg`, or every view, to a folder; give the paths.

        >>> import tempfile
        >>> found = SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4), name="cat")
        >>> [path.name for path in found.save(tempfile.mkdtemp())]
        ['cat-mask.png', 'cat-overlay.jpg']
        """
        kinds = VIEWS if everything else VIEWS[:2]
        return write_views({kind: self.view(kind, alpha) for kind in kinds}, folder, self.name)

    def view(self, kind: str, alpha: float = 1.0) -> Image:
        """One of the views by its kind: mask (grey), overlay, masked-in, masked-out or inpainted.

        >>> SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4)).view("mask")[0].tolist()
        [255, 0, 0, 0]
        """
        if kind == "mask":
            return grey(self.mask)
        draw = {
            "overlay": self.overlay, "masked-in": self.masked_in, "masked-out": self.masked_out,
            "inpainted": self.inpainted,
        }  # fmt: skip
        return draw[kind](alpha)

    def to_dict(self, alpha: float = 1.0) -> dict[str, Any]:
        """Say what was found, ready for JSON.

        >>> SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4)).to_dict()
        {'name': 'photo', 'width': 4, 'height': 4, 'box': [0, 0, 4, 4], 'area': 0.25}
        """
        return describe(self.mask, self.name, self.box(alpha))

    def _repr_png_(self) -> bytes:
        """How a notebook shows it."""
        return encode_png(self.strip())


def grey(mask: Mask) -> Image:
    """A mask (H, W) in 8 bits.

    >>> grey(np.array([[0.0, 0.5, 1.0]], np.float32)).tolist()
    [[0, 128, 255]]
    """
    return np.asarray(cv2.convertScaleAbs(mask, alpha=255), np.uint8)


def describe(mask: Mask, name: str, box: Box | None) -> dict[str, Any]:
    """What a mask (H, W) found, ready for JSON.

    >>> describe(np.full((2, 4), 0.5, np.float32), "cat", (0, 0, 4, 2))
    {'name': 'cat', 'width': 4, 'height': 2, 'box': [0, 0, 4, 2], 'area': 0.5}
    """
    return {
        "name": name,
        "width": mask.shape[1],
        "height": mask.shape[0],
        "box": None if box is None else list(box),
        "area": round(float(mask.mean(dtype=np.float64)), 4),
    }


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


def _resized(array: npt.NDArray[Any], scale: float) -> npt.NDArray[Any]:
    """Shrink (H, W[, C]) by averaging; never enlarge."""
    if scale >= 1:
        return array
    height, width = array.shape[:2]
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(array, size, interpolation=cv2.INTER_AREA), array.dtype)
