"""Warn, without boxes, if the masks lie on the background instead of on objects."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from casmap.inference.components import binary_mask

Floats = npt.NDArray[np.floating]

RING = 0.1  # width of the border, as a share of the shorter side
SHARE = 0.7  # share of the photos that must agree before there is a warning
ENOUGH = 10  # photos; with fewer there is no warning
PLACES = (
    ("top left", "top", "top right"),
    ("left", "middle", "right"),
    ("bottom left", "bottom", "bottom right"),
)  # fmt: skip


def _place_of(mask: Floats) -> str:
    """Where a mask lies: the cell of a 3 x 3 grid that holds its centre of mass."""
    height, width = mask.shape
    total = float(mask.sum()) or 1.0
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
