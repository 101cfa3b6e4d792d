"""`scenes`: generated photo-like images in which all the evidence is known.

Each image shows a creature of one of up to 60 classes among clutter. Its body carries no information about the class;
its head, its coat and its tail each identify it: the shape and the hue of any one of them belong to one class only. A
classifier can therefore use one part and ignore the rest, as classifiers of dogs use faces; the mapping should mark all
of them. Nothing is stored: image number i of a seed is always the same.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from casmap.data.drawing import Canvas, Rng, coat, head, tail
from casmap.data.photos import Annotation, PhotoSet
from casmap.errors import UserError

MAX_CLASSES = 60
HUES = 10
PARTS = (head, coat, tail)  # each in six shapes; shape and hue together identify the class
# As in photos, one part is easier to recognise: a classifier that uses it has no reason to learn the others.
STRENGTHS = (0.4, 1.0, 0.4)
Variant = Literal["plain", "twins", "split-twins"]
Half = Literal["left", "right"]


# For each part, the shape and the hue of each class: a fixed shuffle of all pairs.
DESIGNS = [
    [divmod(int(pair), HUES) for pair in np.random.default_rng([2020, part]).permutation(MAX_CLASSES)]
    for part in range(len(PARTS))
]


@dataclass(frozen=True)
class Scene(Annotation):
    """The annotation of one image, and the image."""

    image: npt.NDArray[np.uint8] = field(kw_only=True)  # (H, W, 3)
    mask: npt.NDArray[np.uint8]  # (H, W): 0 or 255
    parts: npt.NDArray[np.bool_]  # (P, H, W)


class Scenes(PhotoSet):
    """A set of generated scenes with the same number of images for each class.

    classes: number of classes; first_class: the first one (40 with classes=20: classes that the default set lacks).
    variant: "plain"; "twins", the paper's example: the same image twice, side by side; "split-twins": the same, but
    the left creature has only its head and the right one only its tail, so that no single part appears in both.
    destroyed: twins only; the parts in that half are those of a random class, so they carry no information.

    >>> scenes = Scenes(classes=40, photos=80, size=64, seed=7)
    >>> scenes.image(3).shape, scenes.classes[3], scenes.annotation(3).parts.shape
    ((64, 64, 3), 'class-03', (3, 64, 64))
    """

    def __init__(
        self, classes: int = 40, photos: int = 2000, size: int = 96, seed: int = 0, variant: Variant = "plain",
        first_class: int = 0, destroyed: Half | None = None,
    ) -> None:  # fmt: skip
        if variant == "plain" and destroyed:
            raise UserError("destroyed needs variant=twins or variant=split-twins.")
        if variant != "plain" and size % 2:
            raise UserError(f"The size of twins must be even, not {size}.")
        self.size, self.seed, self.variant = size, seed, variant
        self.first_class, self.destroyed = first_class, destroyed
        self.classes = [f"class-{first_class + c:02d}" for c in range(classes)]
        self.labels = np.arange(photos, dtype=np.int64) % classes
        kind = f"{variant}-{size}-{seed}" + (f"-{destroyed}-destroyed" if destroyed else "")
        self.names = [f"{self.classes[label]}/{kind}-{i:05d}.png" for i, label in enumerate(self.labels)]
        self._drawn: dict[int, Scene] = {}

    def scene(self, index: int) -> Scene:
        """Return image number `index` with its annotation; it is drawn once and cached."""
        if index not in self._drawn:
            key, kind = (self.seed, index), self.first_class + int(self.labels[index])
            if self.variant == "plain":
                self._drawn[index] = _draw(key, kind, (0, 1, 2), self.size, self.size)
            else:
                other = self.first_class + int(np.random.default_rng((*key, 1)).integers(len(self.classes)))
                cues = ((0,), (2,)) if self.variant == "split-twins" else ((0, 1, 2), (0, 1, 2))
                kinds = (other if half == self.destroyed else kind for half in ("left", "right"))
                halves = zip(kinds, cues, strict=True)
                self._drawn[index] = _side_by_side(*(_draw(key, *half, self.size, self.size // 2) for half in halves))
        return self._drawn[index]

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Return image number `index`: (size, size, 3) RGB."""
        return self.scene(index).image

    def annotation(self, index: int) -> Annotation:
        """Return boxes, mask and sufficient parts of image number `index`."""
        return self.scene(index)


def _draw(key: tuple[int, int], kind: int, parts: tuple[int, ...], height: int, width: int) -> Scene:
    """Draw a creature of class `kind` with these parts among clutter; the same key gives the same image."""
    rng = np.random.default_rng(key)
    canvas = Canvas(rng, height, width)
    _clutter(canvas, rng, behind=True)
    body, layers = _creature(canvas, rng, kind, parts)
    _clutter(canvas, rng, behind=False)
    visible = np.stack([canvas.layers == layer for layer in layers])
    mask = visible.any(axis=0) | (canvas.layers == body)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]], dtype=np.float64)
    return Scene(box, mask.astype(np.uint8) * 255, visible, image=canvas.develop(rng))


def _side_by_side(left: Scene, right: Scene) -> Scene:
    """Join two scenes side by side; each half keeps its own box and parts."""
    middle, rest = left.image.shape[1], right.image.shape[1]
    boxes = np.concatenate([left.boxes, right.boxes + np.array([middle, 0, middle, 0])])
    parts = [np.pad(left.parts, ((0, 0), (0, 0), (0, rest))), np.pad(right.parts, ((0, 0), (0, 0), (middle, 0)))]
    mask, image = np.hstack([left.mask, right.mask]), np.hstack([left.image, right.image])
    return Scene(boxes, mask, np.concatenate(parts), image=image)


def _creature(canvas: Canvas, rng: Rng, kind: int, parts: tuple[int, ...]) -> tuple[int, list[int]]:
    """Paint a body and these parts of class `kind` on it; return the layer of the body and of each part."""
    upright = canvas.height > canvas.width
    length = rng.uniform(0.6, 0.95) * (0.75 * canvas.height if upright else canvas.width)
    angle = rng.uniform(-0.6, 0.6) + (np.pi / 2 if upright else 0) + (np.pi if rng.random() < 0.5 else 0)
    along = np.array([np.cos(angle), np.sin(angle)])
    reach = np.minimum(np.abs(along) * length / 2 + 0.17 * length, np.array([canvas.width, canvas.height]) / 2)
    centre = rng.uniform(reach, (canvas.width, canvas.height) - reach)
    body = canvas.body(rng, centre, angle, length)
    places = (centre + along * 0.33 * length, centre, centre - along * 0.34 * length)
    layers = []
    for part in parts:
        form, hue = DESIGNS[part][kind]
        strength = STRENGTHS[part] if len(parts) > 1 else 1.0  # a single part has saturated colours
        colour = canvas.hue(rng, (hue + 0.3 * part) / HUES, strength)
        layers.append(PARTS[part](canvas, places[part], angle, length, form, colour))
    return body, layers


def _clutter(canvas: Canvas, rng: Rng, behind: bool) -> None:
    """Paint distractors: blobs in any of the parts' hues, sticks, and bodies without parts."""
    for _ in range(rng.integers(4, 8) if behind else rng.integers(0, 3)):
        scale = min(canvas.height, canvas.width) * (rng.uniform(0.12, 0.35) if behind else rng.uniform(0.06, 0.14))
        place = rng.uniform(0, 1, 2) * (canvas.width, canvas.height)
        angle = rng.uniform(0, 2 * np.pi)
        match rng.integers(3):
            case 0:
                canvas.blob(rng, place, scale, canvas.hue(rng, rng.uniform(), rng.uniform(0.3, 1.0)))
            case 1:
                canvas.stick(rng, place, angle, scale * 2)
            case _:
                canvas.body(rng, place, angle, scale * 1.5)
