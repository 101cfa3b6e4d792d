"""Figure 2: consecutive photos; what is masked in, masked out, and painted over, for mappings side by side."""

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.images import Image, encode_png
from casmap.saliency_map import SaliencyMap, file_name
from casmap.studies.entries import Entries
from casmap.studies.outcome import Cell, Outcome

SHOWN = 7  # photos in a group, as in the paper
ROWS = ("photo", "masked-in", "masked-out", "inpainted")
WITH_OVERLAY = ("photo", "overlay", "masked-in", "masked-out", "inpainted")
THINNINGS = {"CASM (L100)": "L100", "CASM (L)": "L", "Baseline": "F"}  # the supplement's three
SIDE, GAP = 112, 16  # of a picture, and between mappings


def run_figure2(entries: Entries, seed: int, classes: int | None = None) -> Outcome:
    """Seven consecutive photos by lot; or seven of each of so many classes by lot, a picture each."""
    photos, mappers = entries.photos, entries.mappers
    chance = np.random.default_rng((seed, 2))
    if classes is None:
        begin = int(chance.integers(max(1, len(photos) - SHOWN + 1)))
        groups = {"": list(range(begin, min(begin + SHOWN, len(photos))))}
    else:
        labels = drawn_classes(photos, classes, chance)
        groups = {
            f"-{number:02d}-{file_name(photos.classes[label])}": of_class(photos, label, chance)
            for number, label in enumerate(labels, 1)
        }
    figures, rows, records = {}, [], []
    for ending, chosen in groups.items():
        images = [photos.image(index) for index in chosen]
        found = {name: mapper(list(images)) for name, mapper in mappers.items()}
        figures[ending] = encode_png(side_by_side(list(found.values())))
        for place, index in enumerate(chosen):
            maps = {name: each[place] for name, each in found.items()}
            rows.append([Cell(photos.names[index]), *(Cell(f"{one.box()}, {one.area:.2f}") for one in maps.values())])
            records += [
                {"photo": photos.names[index], "mapping": name, "box": one.box(), "area": round(one.area, 4)}
                for name, one in maps.items()
            ]
    return Outcome(
        "figure2" if classes is None else "figure2-classes",
        "Figure 2: masked in, masked out, painted over" + ("" if classes is None else f", {classes} classes"),
        f"{entries.data}, seed {seed}; from left to right: {', '.join(mappers)}. From top to bottom: the photo, masked "
        "in, masked out, and masked out with the hole painted over (Telea). The table has each mapping's box and the "
        "mean of its mask.",
        ["photo", *mappers],
        rows,
        records,
        figures,
    )


def drawn_classes(photos: PhotoSet, count: int, chance: np.random.Generator) -> list[int]:
    """So many classes by lot, each with photos enough to fill a row."""
    full = np.flatnonzero(np.bincount(photos.labels, minlength=len(photos.classes)) >= SHOWN)
    if len(full) < count:
        raise UserError(f"Only {len(full)} classes have {SHOWN} photos or more, and {count} were asked for.")
    return [int(label) for label in np.sort(chance.permutation(full)[:count])]


def of_class(photos: PhotoSet, label: int, chance: np.random.Generator) -> list[int]:
    """Consecutive photos of a class, beginning by lot."""
    own = np.flatnonzero(photos.labels == label)
    begin = int(chance.integers(len(own) - SHOWN + 1))
    return [int(index) for index in own[begin : begin + SHOWN]]


def side_by_side(groups: Sequence[Sequence[SaliencyMap]], rows: Sequence[str] = ROWS, side: int = SIDE) -> Image:
    """A block of pictures for each mapping, white between them."""
    blocks = [block(maps, rows, side) for maps in groups]
    gap = np.full((len(blocks[0]), GAP, 3), 255, np.uint8)
    return np.hstack([part for each in blocks for part in (gap, each)][1:])


def block(maps: Sequence[SaliencyMap], rows: Sequence[str] = ROWS, side: int = SIDE) -> Image:
    """A column for each photo, a row for each view of it.

    >>> found = SaliencyMap(np.zeros((20, 30, 3), np.uint8), np.eye(20, 30))
    >>> block([found] * 7).shape
    (448, 784, 3)
    """
    return np.vstack([np.hstack([square(view(found, row), side) for found in maps]) for row in rows])


def view(found: SaliencyMap, name: str) -> Image:
    """One of a map's pictures by name."""
    return found.photo if name == "photo" else found.view(name)


def square(image: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.uint8]:
    """The picture's central square, in a white frame."""
    shorter = min(image.shape[:2])
    top, left = (image.shape[0] - shorter) // 2, (image.shape[1] - shorter) // 2
    framed = cv2.resize(
        image[top : top + shorter, left : left + shorter], (side - 4, side - 4), interpolation=cv2.INTER_AREA
    )
    return np.pad(framed, ((2, 2), (2, 2), (0, 0)), constant_values=255)
