"""Warn, without boxes, if the masks lie on the background instead of on objects."""

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from casmap.inference.components import binary_mask

Floats = npt.NDArray[np.floating]

RING = 0.1  # width of the border, as a share of the shorter side
SHARE = 0.7  # share of the photos that must agree before there is a warning
ENOUGH = 10  # photos; with fewer there is no warning
GRID = 7  # rows and columns of cells in which the masks of a class are compared with those of the others
MARKED, EXCESS = 0.4, 0.3  # mean mask in a cell, and how much more than in photos of other classes
PLACES = (
    ("top left", "top", "top right"),
    ("left", "middle", "right"),
    ("bottom left", "bottom", "bottom right"),
)  # fmt: skip


def _place_of(mask: Floats) -> str:
    """Where a mask lies: the cell of a 3 x 3 grid that holds its centre of mass; an empty mask counts as the middle."""
    height, width = mask.shape
    if not (total := float(mask.sum())):
        return PLACES[1][1]
    row = float((mask.sum(axis=1) * (np.arange(height) + 0.5)).sum()) / total / height
    column = float((mask.sum(axis=0) * (np.arange(width) + 0.5)).sum()) / total / width
    return PLACES[min(2, int(3 * row))][min(2, int(3 * column))]


def _on_border(mask: Floats) -> bool:
    """Whether the border of an image is marked more densely than the rest of it."""
    binary = binary_mask(mask)
    depth = max(1, round(RING * min(binary.shape)))
    inner = binary[depth:-depth, depth:-depth]
    ring = binary.sum() - inner.sum()
    return bool(ring / (binary.size - inner.size) > inner.mean())


def background_warnings(masks: Floats, labels: npt.NDArray[np.int64], classes: Sequence[str]) -> list[str]:
    """One sentence for each sign that the masks mark the background: masks (N, H, W), labels (N,).

    >>> corner = np.zeros((20, 30, 30))
    >>> corner[:, :8, :8] = 1
    >>> background_warnings(corner, np.zeros(20, np.int64), ["cat"])
    ['In 100 % of the photos the mask lies at the top left: check what these photos have in common there.']
    """
    places = np.array([_place_of(mask) for mask in masks])
    borders = np.array([_on_border(mask) for mask in masks])
    if everywhere := _warning(places, borders, "the photos"):
        return everywhere
    chosen = {f"the photos of {name}": labels == label for label, name in enumerate(classes)}
    return [text for which, own in chosen.items() for text in _warning(places[own], borders[own], which)]


def _warning(places: npt.NDArray[np.str_], borders: npt.NDArray[np.bool_], which: str) -> list[str]:
    if len(places) < ENOUGH:
        return []
    names, counts = np.unique(places, return_counts=True)
    where, share = names[counts.argmax()], counts.max() / len(places)
    if where != "middle" and counts.max() >= SHARE * len(places):
        return [
            f"In {100 * share:.0f} % of {which} the mask lies at the {where}: "
            "check what these photos have in common there."
        ]
    if borders.mean() >= SHARE:
        return [f"In {100 * borders.mean():.0f} % of {which} the mask lies along the border, not on an object."]
    return []


def mark_warnings(masks: Floats, labels: npt.NDArray[np.int64], classes: Sequence[str]) -> list[str]:
    """One sentence for each class whose masks (N, H, W) mark a place at the border that those of others do not.

    So a logo or a time stamp in the photos of one class is found even if the masks mark the object as well, and their
    centre lies elsewhere.

    >>> masks = np.zeros((40, 28, 28))
    >>> masks[:, 8:20, 8:20] = 1
    >>> masks[:20, -5:, -5:] = 1
    >>> mark_warnings(masks, np.arange(40) // 20, ["ship", "car"])[0].partition(":")[0]
    'In 100 % of the photos of ship the mask marks the bottom right, in those of other classes in 0 %'
    """
    cells = np.stack([cv2.resize(mask, (GRID, GRID), interpolation=cv2.INTER_AREA) for mask in masks])
    border = np.ones((GRID, GRID), bool)
    border[1:-1, 1:-1] = False
    found = []
    for label, name in enumerate(classes):
        own = labels == label
        if min(own.sum(), (~own).sum()) < ENOUGH:
            continue
        mean = cells[own].mean(axis=0)
        excess = np.where(border, mean - cells[~own].mean(axis=0), -1.0)
        row, column = np.unravel_index(int(excess.argmax()), excess.shape)
        if mean[row, column] >= MARKED and excess[row, column] >= EXCESS:
            marks = cells[:, row, column] >= MARKED
            where = PLACES[int(3 * (row + 0.5) / GRID)][int(3 * (column + 0.5) / GRID)]
            found.append(
                f"In {100 * marks[own].mean():.0f} % of the photos of {name} the mask marks the {where}, in those of "
                f"other classes in {100 * marks[~own].mean():.0f} %: look there for a logo, a stamp or a symbol."
            )
    return found
