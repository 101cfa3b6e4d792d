"""The table of an evaluation: mappings beside the centre box and the whole picture."""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from casmap.annotations.types import Kind
from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import FIXED, Row, System, annotated, localization_errors, map_photos, measure_masks
from casmap.evaluation.numbers import Number
from casmap.inference.mapper import SHIPPED, SaliencyMapper, load_mappers
from casmap.reporting import SILENT, Reporter

Mapping = str | os.PathLike[str] | SaliencyMapper

# Shares are printed in percent, as the paper does; the arrow says which way is better.
COLUMNS: dict[str, tuple[str, float]] = {
    "OM": ("OM ↓", 100), "LE": ("LE ↓", 100), "LE at area": ("LE at equal area ↓", 100), "F1": ("F1 ↑", 100),
    "MaxBoxAccV2": ("MaxBoxAccV2 ↑", 100), "PxAP": ("PxAP ↑", 100), "mask IoU": ("mask IoU ↑", 100),
    "evidence recall": ("evidence recall ↑", 100), "evidence precision": ("evidence precision ↑", 100),
    "binary area": ("binary mask area", 1), "area": ("mask area", 1), "total variation": ("total variation", 1),
    "mask entropy": ("mask entropy", 1), "spread": ("spread", 1),
}  # fmt: skip
FORMULAS = (
    "total variation: sum of |differences| of neighbours; mask entropy: mean of -m log2 m; "
    "spread: standard deviation over photos of the mean mask"
)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A row for each system (central crop), and each system's LE when photos are squashed instead."""

    rows: list[Row]
    squashed: dict[str, float]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row of this name."""
        return {row.name: row for row in self.rows}[name]


def evaluate(
    data: str | os.PathLike[str],
    *,
    mapping: Mapping | Sequence[Mapping] | None = None,
    boxes: str | os.PathLike[str] | None = None,
    masks: str | os.PathLike[str] | None = None,
    parts: str | os.PathLike[str] | None = None,
    split: str | None = None,
    area: float | None = None,
    size: int | None = None,
    unseen: bool = False,
    reporter: Reporter = SILENT,
) -> Evaluation:
    """Measure mappings against boxes and masks, beside the centre box and the whole picture.

    data: photos in any layout, or scenes[:options]. mapping: one or several, files or mappers; the one that comes with
    casmap where none is given. area: compare evidence at this mean area. size: side of the pictures. unseen: the photos
    may be of classes that a mapping does not know; then it has no OM.
    """
    boxes, masks, parts = (None if path is None else Path(path) for path in (boxes, masks, parts))
    photos = open_photos(os.fspath(data), held_out=True, boxes=boxes, masks=masks, parts=parts, split=split)
    unmatched = [one.what for one in getattr(photos, "problems", ()) if one.kind is Kind.NO_PHOTO]
    if unmatched:
        reporter.warning(f"{len(unmatched)} annotations match no photo in {data}; the first: {unmatched[0]}.")
    given = [mapping] if mapping is None or isinstance(mapping, str | os.PathLike | SaliencyMapper) else mapping
    if not given:
        raise UserError("No mapping was given to evaluate.")
    files = [Path(SHIPPED if one is None else one) for one in given if not isinstance(one, SaliencyMapper)]
    named = iter(load_mappers(files).items())  # by short names; a mapper that is loaded already is called by its place
    loaded = (
        (f"mapping {n}", one) if isinstance(one, SaliencyMapper) else next(named) for n, one in enumerate(given, 1)
    )
    mappers = dict(loaded)
    for name, mapper in mappers.items():
        strangers = [label for label in photos.classes if label not in mapper.classes]
        if strangers and mapper.network.predicts and not unseen:
            raise UserError(
                f"The mapping {name} is for {len(mapper.classes)} classes and does not know {strangers[0]!r}, one of "
                f"the {len(photos.classes)} of these photos: with --unseen it is evaluated without OM."
            )
    return compare(photos, mappers, area=area, size=size, reporter=reporter)


def compare(
    photos: PhotoSet, mappers: dict[str, SaliencyMapper], *,
    area: float | None = None, size: int | None = None, reporter: Reporter = SILENT,
) -> Evaluation:  # fmt: skip
    """Evaluate each mapper, the centre box and the whole picture, under both resizing policies."""
    sides = {name: size or mapper.size for name, mapper in mappers.items()}
    common = next(iter(sides.values()))
    systems: dict[str, System] = {name: system_of(mapper, photos) for name, mapper in mappers.items()}
    systems |= FIXED
    rows, squashed = [], {}
    with reporter.progress("evaluating", 2 * len(annotated(photos)) * len(systems)) as advance:
        for name, system in systems.items():
            side = sides.get(name, common)
            rows.append(measure_masks(name, map_photos(system, photos, side, "crop", advance), area))
            other = map_photos(system, photos, side, "squash", advance)
            squashed[name] = float(localization_errors(other).mean())
    return Evaluation(rows, squashed)


def system_of(mapper: SaliencyMapper, photos: PhotoSet) -> System:
    """A mapper as a system to be measured; it tells classes only if it knows all of the photos' classes.

    It sees the pictures at its own size, as it does when it extracts; its masks come back at theirs.
    """
    here = {mapper.classes.index(name): index for index, name in enumerate(photos.classes) if name in mapper.classes}

    def system(pictures: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.int64] | None]:
        side = pictures.shape[1]
        if side == mapper.size:
            masks, logits = mapper.masks(pictures)
        else:
            masks, logits = mapper.masks(np.stack([resize(picture, mapper.size, "crop") for picture in pictures]))
            masks = np.stack([cv2.resize(mask, (side, side)) for mask in masks])
        if not mapper.network.predicts or len(here) < len(photos.classes):
            return masks, None
        return masks, np.array([here.get(int(index), -1) for index in logits.argmax(axis=1)])

    return system


def text_of(number: Number | None, scale: float) -> str:
    """A number and, on a line of its own, its interval."""
    if number is None:
        return "-"
    value, low, high = (scale * x for x in (number.value, number.low, number.high))
    digits = 1 if scale > 1 or value >= 100 else 3
    return f"{value:.{digits}f}\n{low:.{digits}f} – {high:.{digits}f}"


def to_json(results: Evaluation) -> str:
    """All numbers with their intervals."""
    content = {
        row.name: {
            **{key: dataclasses.asdict(number) for key, number in row.numbers.items()},
            "LE squashed": {"value": results.squashed[row.name]},
        }
        for row in results.rows
    }
    return json.dumps(content, indent=2) + "\n"
