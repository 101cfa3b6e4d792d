"""Draw the elements of `scenes`: textured backgrounds, bodies, clutter, and the parts that identify the class."""

import colorsys
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

Rng = np.random.Generator
Floats = npt.NDArray[np.floating]
_FINE = 4  # bits after the binary point in OpenCV's drawing coordinates


class Canvas:
    """An image being drawn: colours in 0..1 and, for each pixel, the number of the topmost layer."""

    def __init__(self, rng: Rng, height: int, width: int) -> None:
        self.height, self.width = height, width
        self._noise = _noise(rng, 2 * height, 2 * width)
        # Two textures in dull colours, separated by a rough horizon.
        upper = self.texture(rng, _dull(rng), rng.uniform(0.2, 0.8))
        lower = self.texture(rng, _dull(rng), rng.uniform(0.4, 1.0))
        horizon = height * (rng.uniform(0.2, 0.8) + 0.1 * self._noise_crop(rng))
        self.colours: Floats = np.where((np.arange(height)[:, None] > horizon)[..., None], lower, upper)
        self.layers = np.zeros((height, width), np.int32)
        self._top = 0

    def paint(self, shape: Floats, colours: Floats) -> int:
        """Paint `colours` ((H, W, 3) or one colour) over `shape` (H, W) in 0..1; return the layer's number."""
        self._top += 1
        self.colours += shape[..., None] * (colours - self.colours)
        self.layers[shape > 0.5] = self._top
        return self._top

    def shape(self, *polygons: Floats) -> Floats:
        """Rasterise polygons, each (n, 2) x, y, with antialiased edges: (H, W) in 0..1."""
        raster = np.zeros((self.height, self.width), np.uint8)
        for polygon in polygons:
            points = np.round(polygon * 2**_FINE).astype(np.int32)
            cv2.fillPoly(raster, [points], 255, lineType=cv2.LINE_AA, shift=_FINE)
        return raster.astype(np.float32) / 255

    def hue(self, rng: Rng, hue: float, strength: float) -> Floats:
        """Return a colour of this hue with random variation; strength: 1 for saturated colours, less for pale ones."""
        saturation = strength * rng.uniform(0.75, 0.95)
        return np.array(colorsys.hsv_to_rgb(hue % 1, saturation, rng.uniform(0.75, 1.0)), np.float32)

    def body(self, rng: Rng, place: Floats, angle: float, length: float) -> int:
        """Paint a textured oval in a dull colour, with a shadow."""
        oval = place + _turn(_CIRCLE * (0.40, 0.16) * length, angle)
        shadow = self.shape(oval + 0.04 * length)
        self.colours *= 1 - 0.5 * cv2.GaussianBlur(shadow, (0, 0), 0.03 * length + 0.5)[..., None]
        return self.paint(self.shape(oval), self.texture(rng, _dull(rng), 0.5))

    def blob(self, rng: Rng, place: Floats, scale: float, colour: Floats) -> None:
        """Paint an irregular spot."""
        waves = np.sin(np.outer(_ANGLES, [2, 3, 5]) + rng.uniform(0, 6, 3)).sum(1)
        spot = place + _CIRCLE * (1 + 0.25 * waves / 1.5)[:, None] * scale / 2
        self.paint(self.shape(spot), self.texture(rng, colour, 0.35))

    def stick(self, rng: Rng, place: Floats, angle: float, length: float) -> None:
        """Paint a straight stick in a dull colour."""
        bar = _turn(_SQUARE * (length / 2, max(1.0, length * 0.05)), angle)
        self.paint(self.shape(place + bar), self.texture(rng, _dull(rng), 0.3))

    def texture(self, rng: Rng, colour: Floats, contrast: float) -> Floats:
        """Return a colour varied by a random crop of the canvas's noise: (H, W, 3)."""
        noise = self._noise_crop(rng)[..., None] + np.float32(0.12) * rng.normal(0, 1, 3).astype(np.float32)
        return np.asarray(np.clip(colour * (1 + np.float32(0.5 * contrast) * noise), 0, 1))

    def _noise_crop(self, rng: Rng) -> Floats:
        top, left = rng.integers(self.height), rng.integers(self.width)
        return self._noise[top : top + self.height, left : left + self.width]

    def develop(self, rng: Rng) -> npt.NDArray[np.uint8]:
        """Return the finished image, lit from one side, slightly blurred and with sensor noise: (H, W, 3) uint8."""
        ys, xs = np.mgrid[0 : self.height, 0 : self.width].astype(np.float32) / max(self.height, self.width)
        angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.35)
        light = rng.uniform(0.85, 1.1) + strength * (np.cos(angle) * (xs - 0.5) + np.sin(angle) * (ys - 0.5))
        image = cv2.GaussianBlur(self.colours * light[..., None], (0, 0), rng.uniform(0.3, 0.7))
        image = image + 0.02 * rng.standard_normal(image.shape, np.float32)
        return np.asarray(np.round(np.clip(image, 0, 1) * 255), np.uint8)


def head(canvas: Canvas, place: Floats, angle: float, length: float, form: int, colour: Floats) -> int:
    """Paint a head in one of six outlines: disc, square, triangle, star, cross or moon; return the layer's number."""
    outline = _turn(_OUTLINES[form] * 0.19 * length, angle)
    layer = canvas.paint(canvas.shape(place + outline * 1.12), colour * 0.25)  # a dark rim
    inside = canvas.shape(place + outline * 0.88)
    canvas.colours += inside[..., None] * (colour - canvas.colours)
    return layer


def coat(canvas: Canvas, place: Floats, angle: float, length: float, form: int, colour: Floats) -> int:
    """Paint a coat in one of six patterns: two kinds of stripes, checks, dots, a target, halves; return its layer."""
    ys, xs = np.mgrid[0 : canvas.height, 0 : canvas.width].astype(np.float32) + 0.5
    x, y = _turn(np.stack([xs - place[0], ys - place[1]], axis=-1), -angle).transpose(2, 0, 1) / (0.16 * length)
    colours = np.where(_PATTERNS[form](x, y)[..., None], colour, np.float32(0.95))
    return canvas.paint(canvas.shape(place + _turn(_SQUARE * 0.16 * length, angle)), colours)


def tail(canvas: Canvas, place: Floats, angle: float, length: float, form: int, colour: Floats) -> int:
    """Paint a tail in one of six shapes: one, two or three prongs, a ball, a fan or a zigzag; return its layer."""
    unit = 0.21 * length

    def prong(tilt: float, reach: float = 1.3) -> Floats:
        bar = _SQUARE * (reach / 2, 0.19) + (-reach / 2, 0)
        return place + _turn(np.array([0.5 * unit, 0]), angle) + _turn(bar * unit, angle + tilt)

    fan = np.array([[0.5, 0], [-0.9, 0.9], [-0.9, -0.9]])
    zigzag = np.array([[0.6, 0.4], [0, -0.7], [-0.4, 0.4], [-1, -0.7], [-1, 0], [-0.4, 1], [0, 0], [0.5, 0.9]])
    shapes = (
        (prong(0.0, 1.6),), (prong(0.5), prong(-0.5)), (prong(0.8), prong(0.0), prong(-0.8)),
        (prong(0.0), place + _turn((_CIRCLE * 0.55 + (-0.8, 0)) * unit, angle)),
        (place + _turn(fan * unit, angle),), (place + _turn(zigzag * unit, angle),),
    )  # fmt: skip
    return canvas.paint(canvas.shape(*shapes[form]), colour)


def _noise(rng: Rng, height: int, width: int) -> Floats:
    """Return noise whose power falls with frequency as in photographs, of magnitude about 1: (H, W)."""
    total, cells = np.zeros((height, width), np.float32), 4
    while cells < min(height, width):
        grid = rng.normal(0, 1, (cells, cells)).astype(np.float32)
        total += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC) * (cells / 2) ** -0.6
        cells *= 2
    return total


def _dull(rng: Rng) -> Floats:
    return np.array(colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.05, 0.4), rng.uniform(0.3, 0.8)), np.float32)


def _turn(points: Floats, angle: float) -> Floats:
    return np.asarray(points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]))


def _star(spikes: int, inner: float) -> Floats:
    angles = np.arange(2 * spikes) * np.pi / spikes
    radii = np.where(np.arange(2 * spikes) % 2, inner, 1.0)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


_ANGLES = np.linspace(0, 2 * np.pi, 48)
_CIRCLE: Floats = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
_MOON: Floats = np.add(np.concatenate([_CIRCLE[6:42], _CIRCLE[::-1][8:40] * (0.75, 0.8) + (0.4, 0)]), (0.15, 0))
_SQUARE: Floats = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
_CROSS: Floats = np.array([
    (-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35),
    (0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35),
])  # fmt: skip
_OUTLINES = (_CIRCLE, _SQUARE * 0.85, _star(3, 0.5) * 1.15, _star(5, 0.45) * 1.15, _CROSS, _MOON)  # of heads
_PATTERNS: tuple[Callable[[Floats, Floats], npt.NDArray[np.bool_]], ...] = (
    lambda x, y: np.sin(x * 7) > 0,
    lambda x, y: np.sin(y * 7) > 0,
    lambda x, y: (np.sin(x * 5) > 0) ^ (np.sin(y * 5) > 0),
    lambda x, y: np.sin(x * 7) * np.sin(y * 7) > 0.35,
    lambda x, y: (np.hypot(x, y) < 0.35) | (np.hypot(x, y) > 0.75),
    lambda x, y: x + y > 0,
)
