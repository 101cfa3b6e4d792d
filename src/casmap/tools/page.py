"""One self-contained HTML page: tables, curves, and views of saliency maps side by side."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import jinja2
import numpy as np

from casmap.inference.saliency_map import SaliencyMap
from casmap.io.atomic import write_whole
from casmap.io.images import Image

SHOWN = 7  # photos in a group, as in the paper
ROWS = ("photo", "masked-in", "masked-out", "inpainted")
WITH_OVERLAY = ("photo", "overlay", "masked-in", "masked-out", "inpainted")
SIDE, GAP = 112, 16  # pixels of an image's side, and between mappings


@dataclass
class Section:
    """A heading, a paragraph, and the table, images and curves below it."""

    title: str
    text: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    images: Sequence[tuple[str, bytes]] = ()  # captions and PNG files
    curves: Sequence["Curve"] = ()
    words: bool = False  # whether the cells are sentences, which may wrap
    images_first: bool = False  # above the table


@dataclass
class Curve:
    """Lines over steps, drawn as SVG."""

    title: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    WIDTH, HEIGHT = 320, 160

    def paths(self) -> list[tuple[str, str]]:
        """The name and the SVG points of each line."""
        right = max(x for line in self.lines.values() for x, _ in line)
        return [
            (name, " ".join(f"{x / right * self.WIDTH:.1f},{self.HEIGHT * (1 - y / self.top):.1f}" for x, y in line))
            for name, line in self.lines.items()
        ]

    @property
    def top(self) -> float:
        """The highest value drawn."""
        return max(y for line in self.lines.values() for _, y in line) or 1.0


def write_page(path: Path, title: str, lead: str, sections: list[Section]) -> None:
    """Write the page atomically."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("casmap.tools", "."), autoescape=True)
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    page = environment.get_template("page.html").render(title=title, lead=lead, sections=sections)
    write_whole(path, page)


def curve(title: str, key: str, logs: dict[str, list[dict[str, Any]]], smooth: int = 10) -> Curve:
    """One column of several training logs, averaged over a few steps."""
    lines = {}
    for name, rows in logs.items():
        chunks = [rows[at : at + smooth] for at in range(0, len(rows), smooth)]
        lines[name] = [(chunk[-1]["step"], float(np.mean([row[key] for row in chunk]))) for chunk in chunks]
    return Curve(title, lines)


def side_by_side(
    groups: Sequence[Sequence[SaliencyMap]], rows: Sequence[str] = ROWS, side: int = SIDE, alpha: float | None = None
) -> Image:
    """The blocks of several mappings, with white gaps between them."""
    blocks = [block(maps, rows, side, alpha) for maps in groups]
    gap = np.full((len(blocks[0]), GAP, 3), 255, np.uint8)
    return np.hstack([part for each in blocks for part in (gap, each)][1:])


def block(
    maps: Sequence[SaliencyMap], rows: Sequence[str] = ROWS, side: int = SIDE, alpha: float | None = None
) -> Image:
    """One column for each photo, one row for each view of it, cropped to their central squares, in white frames.

    alpha: of the views; without it they have the default threshold.

    >>> found = SaliencyMap(np.zeros((20, 30, 3), np.uint8), np.eye(20, 30))
    >>> block([found] * 7).shape
    (448, 784, 3)
    """

    def square(image: Image) -> Image:
        shorter = min(image.shape[:2])
        top, left = (image.shape[0] - shorter) // 2, (image.shape[1] - shorter) // 2
        cut = image[top : top + shorter, left : left + shorter]
        framed = cv2.resize(cut, (side - 4, side - 4), interpolation=cv2.INTER_AREA)
        return np.pad(framed, ((2, 2), (2, 2), (0, 0)), constant_values=255)

    views = [[found.photo if row == "photo" else found.view(row, alpha) for found in maps] for row in rows]
    return np.vstack([np.hstack([square(image) for image in line]) for line in views])
