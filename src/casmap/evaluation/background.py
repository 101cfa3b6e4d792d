"""Does the evidence lie in objects, or in what is around them? Told from masks alone, without boxes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from casmap.inference.components import binary_mask

RING = 0.1  # of the side: the border of a picture
SHARE = 0.7  # of the photos that must agree before anything is said
ENOUGH = 10  # photos, below which nothing is said
PLACES = (
    ("top left", "top", "top right"),
    ("left", "middle", "right"),
    ("bottom left", "bottom", "bottom right"),
)  # fmt: skip


def place_of(mask: npt.NDArray[np.floating]) -> str:
    """Where most of a mask lies: the ninth of the picture that holds its centre of mass.

    >>> mask = np.zeros((9, 9))
    >>> mask[0:3, 6:9] = 1
    >>> place_of(mask), place_of(np.ones((9, 9)))
    ('top right', 'middle')
    """
    height, width = mask.shape
    total = float(mask.sum()) or 1.0
    row = float((mask.sum(axis=1) * (np.arange(height) + 0.5)).sum()) / total / height
    column = float((mask.sum(axis=0) * (np.arange(width) + 0.5)).sum()) / total / width
    return PLACES[min(2, int(3 * row))][min(2, int(3 * column))]


def on_border(mask: npt.NDArray[np.floating]) -> bool:
    """Whether the border of a picture is marked more densely than the rest of it.

    >>> mask = np.ones((20, 20))
    >>> mask[5:15, 5:15] = 0
    >>> on_border(mask), on_border(1 - mask)
    (True, False)
    """
    binary = binary_mask(mask)
    depth = max(1, round(RING * min(binary.shape)))
    inner = binary[depth:-depth, depth:-depth]
    ring = binary.sum() - inner.sum()
    return bool(ring / (binary.size - inner.size) > inner.mean())


def warnings(masks: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], classes: Sequence[str]) -> list[str]:
    """A sentence for each sign that a background is evidence: masks (N, H, W), labels (N,).

    >>> corner = np.zeros((20, 30, 30))
    >>> corner[:, :8, :8] = 1
    >>> warnings(corner, np.zeros(20, np.int64), ["cat"])
    ['In 100 % of the photos the evidence lies at the top left: look at what is there in all of them.']
    """
    places = np.array([place_of(mask) for mask in masks])
    borders = np.array([on_border(mask) for mask in masks])
    whole = _told(places, borders, "the photos")
    if whole:
        return whole
    found = []
    for label, name in enumerate(classes):
        found += _told(places[labels == label], borders[labels == label], f"the photos of {name}")
    return found


def _told(places: npt.NDArray[np.str_], borders: npt.NDArray[np.bool_], whose: str) -> list[str]:
    if len(places) < ENOUGH:
        return []
    names, uses = np.unique(places, return_counts=True)
    where, share = names[uses.argmax()], uses.max() / len(places)
    if where != "middle" and uses.max() >= SHARE * len(places):
        return [
            f"In {100 * share:.0f} % of {whose} the evidence lies at the {where}: look at what is there in all of them."
        ]
    if borders.mean() >= SHARE:
        return [f"In {100 * borders.mean():.0f} % of {whose} the evidence lies along the border, not in an object."]
    return []
