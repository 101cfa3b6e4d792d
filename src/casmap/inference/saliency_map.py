"""SaliencyMap: a photo with its mask, its objects, and the views that the paper defines."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from casmap.annotations.format import Which
from casmap.annotations.labelled import Object
from casmap.errors import UserError
from casmap.inference.components import Binary, Box, Mask, Threshold, is_flat, largest_component
from casmap.inference.objects import SMALLEST, objects_of
from casmap.inference.views import MASKED, VIEWS, draw_overlay, grey, inpaint, opacity, shrunk, write_views
from casmap.io.images import Image, encode_png

if TYPE_CHECKING:
    from supervision import Detections

STRIP = ("overlay", "masked-in", "masked-out", "inpainted")
STRIP_HEIGHT, STRIP_GAP = 256, 4


@dataclass(frozen=True, eq=False)
class SaliencyMap:
    """A photo (H, W, 3) uint8 and its mask (H, W) float32 in [0, 1]; high values mark evidence for the photo's class.

    label, confidence: the class that the mapping's classifier predicts and its probability; None if it predicts none.

    Every view takes threshold or alpha: the binary mask keeps m >= threshold (default 0.5), or m >= alpha * mean(m) as
    in the paper, where alpha is 1. A mask that is flat, or below the threshold everywhere, marks no object: its box is
    None.

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
    label: str | None = field(default=None, repr=False)
    confidence: float | None = field(default=None, repr=False)
    source: str = field(default="", repr=False)  # the photo's path; "" if it has none
    _boxes: dict[Threshold, Box | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.photo.dtype != np.uint8 or self.photo.ndim != 3 or self.photo.shape[2] != 3 or self.photo.size == 0:
            raise ValueError(f"photo must be (H, W, 3) uint8, not {self.photo.shape} {self.photo.dtype}")
        if self.mask.shape != self.photo.shape[:2]:
            raise ValueError(f"mask must have the photo's shape {self.photo.shape[:2]}, not {self.mask.shape}")
        if not (self.mask.min() > -1e-3 and self.mask.max() < 1 + 1e-3):  # written so that NaN fails, too
            raise ValueError("mask must be in [0, 1]")
        # Interpolation can overshoot by a rounding error.
        object.__setattr__(self, "mask", np.clip(self.mask, 0, 1).astype(np.float32))

    @property
    def area(self) -> float:
        """The mean of the mask: the share of the photo that it marks.

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 0.5]])).area
        0.25
        """
        return float(self.mask.mean(dtype=np.float64))

    def binary(self, alpha: float | None = None, threshold: float | None = None) -> Binary:
        """The binary mask (H, W): m >= threshold, or m >= alpha * mean(m).

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 0.5]])).binary().tolist()
        [[False, True]]
        """
        return Threshold(alpha, threshold).binary(self.mask)

    def connected(self, alpha: float | None = None, threshold: float | None = None) -> Binary:
        """The largest component of the binary mask: (H, W).

        >>> SaliencyMap(np.zeros((1, 4, 3), np.uint8), np.array([[1.0, 0, 1, 1]])).connected().tolist()
        [[False, False, True, True]]
        """
        return (
            np.zeros(self.mask.shape, bool) if is_flat(self.mask) else largest_component(self.binary(alpha, threshold))
        )

    def box(self, alpha: float | None = None, threshold: float | None = None) -> Box | None:
        """The tightest box x0, y0, x1, y1 around the largest component, in pixels; x1 and y1 are exclusive.

        >>> SaliencyMap(np.zeros((1, 4, 3), np.uint8), np.array([[1.0, 0, 1, 1]])).box()
        (2, 0, 4, 1)
        """
        cut = Threshold(alpha, threshold)
        if cut not in self._boxes:  # views and boxes.jsonl use the same box
            self._boxes[cut] = cut.box(self.mask)
        return self._boxes[cut]

    def objects(
        self,
        which: Which = "all",
        min_area: float = SMALLEST,
        alpha: float | None = None,
        threshold: float | None = None,
    ) -> list[Object]:
        """The components of the binary mask, largest first: box, polygon, RLE, area, score and label of each.

        which: "all" or "largest". min_area: the smallest area of an object, as a share of the photo.

        >>> found = SaliencyMap(np.zeros((1, 4, 3), np.uint8), np.array([[1.0, 0, 1, 1]]), label="cat")
        >>> [(one.label, one.box, one.area) for one in found.objects()]
        [('cat', (2, 0, 4, 1), 2), ('cat', (0, 0, 1, 1), 1)]
        """
        return objects_of(self.mask, self.label or "", which, min_area, Threshold(alpha, threshold))

    def cutout(self, alpha: float | None = None, threshold: float | None = None) -> Image | None:
        """The largest object on a transparent background, cropped to its box: (h, w, 4) RGBA; None without an object.

        The object has an opacity of 128 to 255. Across its edge the opacity falls to 0 within two pixels.

        >>> SaliencyMap(np.zeros((1, 4, 3), np.uint8), np.array([[1.0, 0, 1, 1]])).cutout().tolist()
        [[[0, 0, 0, 255], [0, 0, 0, 255]]]
        """
        box = self.box(alpha, threshold)
        if box is None:
            return None
        x0, y0, x1, y1 = box
        left, top = max(0, x0 - 1), max(0, y0 - 1)  # the slope at the edge needs a pixel beyond the box
        around = np.s_[top : y1 + 1, left : x1 + 1]
        level = Threshold(alpha, threshold).level(self.mask)
        opaque = opacity(self.mask[around], self.connected(alpha, threshold)[around], level)
        return np.dstack([self.photo[y0:y1, x0:x1], opaque[y0 - top : y1 - top, x0 - left : x1 - left]])

    def to_detections(
        self,
        which: Which = "all",
        min_area: float = SMALLEST,
        alpha: float | None = None,
        threshold: float | None = None,
    ) -> "Detections":
        """Convert the objects to `supervision.Detections`: xyxy, mask, confidence (the object's score), class names."""
        try:
            from supervision import Detections
        except ModuleNotFoundError as error:
            raise UserError("to_detections needs the package supervision: pip install supervision.") from error
        found = self.objects(which, min_area, alpha, threshold)
        if not found:
            return Detections.empty()
        return Detections(
            xyxy=np.array([one.box for one in found], np.float32),
            mask=np.stack([one.mask() for one in found]),
            confidence=np.array([one.score for one in found], np.float32),
            class_id=np.zeros(len(found), np.int64),
            data={"class_name": np.array([one.label for one in found])},
        )

    def masked_in(self, alpha: float | None = None, threshold: float | None = None) -> Image:
        """The photo with all pixels outside the binary mask replaced by grey, b * x: (H, W, 3).

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 1.0]])).masked_in().tolist()
        [[[128, 128, 128], [0, 0, 0]]]
        """
        return np.where(self.binary(alpha, threshold)[..., None], self.photo, MASKED)

    def masked_out(self, alpha: float | None = None, threshold: float | None = None) -> Image:
        """The photo with all pixels of the binary mask replaced by grey, (1 - b) * x: (H, W, 3).

        >>> SaliencyMap(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 1.0]])).masked_out().tolist()
        [[[0, 0, 0], [128, 128, 128]]]
        """
        return np.where(self.binary(alpha, threshold)[..., None], MASKED, self.photo)

    def inpainted(self, alpha: float | None = None, threshold: float | None = None) -> Image:
        """The photo with the pixels of the binary mask filled by Telea's algorithm: (H, W, 3).

        >>> photo = np.full((8, 8, 3), 50, np.uint8)
        >>> photo[3, 3] = 255
        >>> bool(SaliencyMap(photo, (photo[..., 0] == 255).astype(np.float32)).inpainted().max() < 60)
        True
        """
        filled = inpaint(self.photo, self.binary(alpha, threshold))
        return self.masked_out(alpha, threshold) if filled is None else filled

    def overlay(self, alpha: float | None = None, threshold: float | None = None) -> Image:
        """The photo with the mask as a heat map and the box: (H, W, 3).

        >>> SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4)).overlay().shape
        (4, 4, 3)
        """
        return draw_overlay(self.photo, self.mask, self.box(alpha, threshold))

    def strip(self, alpha: float | None = None, threshold: float | None = None) -> Image:
        """The photo and its overlay, masked-in, masked-out and inpainted views side by side, at most 256 pixels high.

        >>> SaliencyMap(np.zeros((500, 500, 3), np.uint8), np.zeros((500, 500))).strip().shape
        (256, 1296, 3)
        """
        scale = STRIP_HEIGHT / self.photo.shape[0]
        small = SaliencyMap(shrunk(self.photo, scale), shrunk(self.mask, scale))
        views = [small.view(kind, alpha, threshold) for kind in STRIP]
        gap = np.full((small.photo.shape[0], STRIP_GAP, 3), 255, np.uint8)
        return np.hstack([small.photo, *(part for view in views for part in (gap, view))])

    def save(
        self, folder: str | Path, everything: bool = False, alpha: float | None = None, threshold: float | None = None
    ) -> list[Path]:
        """Write `<name>-mask.png` and `<name>-overlay.jpg`, or all views, to a folder; returns the paths.

        Without an object there is no cutout.

        >>> import tempfile
        >>> found = SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4), name="cat")
        >>> [path.name for path in found.save(tempfile.mkdtemp())]
        ['cat-mask.png', 'cat-overlay.jpg']
        """
        kinds = [*VIEWS] if everything else [*VIEWS[:2]]
        if everything and self.box(alpha, threshold) is None:
            kinds.remove("cutout")
        return write_views({kind: self.view(kind, alpha, threshold) for kind in kinds}, folder, self.name)

    def view(self, kind: str, alpha: float | None = None, threshold: float | None = None) -> Image:
        """The view of this kind: mask (grey), overlay, masked-in, masked-out, inpainted or cutout (RGBA).

        >>> SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4)).view("mask")[0].tolist()
        [255, 0, 0, 0]
        """
        if kind == "mask":
            return grey(self.mask)
        draw = {
            "overlay": self.overlay, "masked-in": self.masked_in, "masked-out": self.masked_out,
            "inpainted": self.inpainted,
        }  # fmt: skip
        if kind == "cutout":
            cutout = self.cutout(alpha, threshold)
            if cutout is None:
                raise UserError(f"{self.name} has no object to cut out: lower the threshold.")
            return cutout
        if kind not in draw:
            raise UserError(f"There is no view {kind!r}: choose from {', '.join(VIEWS)}.")
        return draw[kind](alpha, threshold)

    def to_dict(self, alpha: float | None = None, threshold: float | None = None) -> dict[str, Any]:
        """Name, size, box and area as a dict for JSON.

        >>> SaliencyMap(np.zeros((4, 4, 3), np.uint8), np.eye(4)).to_dict()
        {'name': 'photo', 'width': 4, 'height': 4, 'box': [0, 0, 4, 4], 'area': 0.25}
        """
        (height, width), box = self.mask.shape, self.box(alpha, threshold)
        result = {"name": self.name, "width": width, "height": height, "box": None if box is None else list(box)}
        return result | {"area": round(self.area, 4)}

    def _repr_png_(self) -> bytes:
        """The image that a notebook shows."""
        return encode_png(self.strip())
