"""The table of an evaluation: mappings beside the centre box and the whole picture."""

import dataclasses
import json
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import (
    Number,
    Row,
    System,
    annotated,
    center_system,
    evaluate,
    localization_errors,
    map_photos,
    whole_system,
)
from casmap.inference.mapper import SaliencyMapper, names_of

# Shares are printed in percent, as the paper does; the arrow says which way is better.
COLUMNS: dict[str, tuple[str, float]] = {
    "OM": ("OM ↓", 100),
    "LE": ("LE ↓", 100),
    "LE at area": ("LE at equal area ↓", 100),
    "F1": ("F1 ↑", 100),
    "MaxBoxAccV2": ("MaxBoxAccV2 ↑", 100),
    "PxAP": ("PxAP ↑", 100),
    "mask IoU": ("mask IoU ↑", 100),
    "evidence recall": ("evidence recall ↑", 100),
    "evidence precision": ("evidence precision ↑", 100),
    "binary area": ("binary mask area", 1),
    "area": ("mask area", 1),
    "total variation": ("total variation", 1),
    "mask entropy": ("mask entropy", 1),
    "spread": ("spread", 1),
}


FORMULAS = (
    "total variation: sum of |differences| of neighbours; mask entropy: mean of -m log2 m; "
    "spread: standard deviation over photos of the mean mask"
)


@dataclasses.dataclass(frozen=True)
class Results:
    """A row for each system (central crop), and each system's LE when photos are squashed instead."""

    rows: list[Row]
    squashed: dict[str, float]


def evaluate_mappings(
    data: str,
    mappings: list[Path],
    boxes: Path | None = None,
    masks: Path | None = None,
    parts: Path | None = None,
    area: float | None = None,
    size: int | None = None,
    unseen: bool = False,
    console: Console | None = None,
    split: str | None = None,
) -> Results:
    """Open data and mappings as the command line names them, and evaluate.

    unseen: the photos may be of classes that a mapping does not know; then it has no OM.
    """
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, parts=parts, split=split)
    mappers = {name: SaliencyMapper.load(path) for name, path in zip(names_of(mappings), mappings, strict=True)}
    for name, mapper in mappers.items():
        strangers = [label for label in photos.classes if label not in mapper.classes]
        if strangers and mapper.network.predicts and not unseen:
            raise UserError(
                f"The mapping {name} is for {len(mapper.classes)} classes and does not know {strangers[0]!r}, one of "
                f"the {len(photos.classes)} of these photos: with --unseen it is evaluated without OM."
            )
    return compare(photos, mappers, area, size, console)


def compare(
    photos: PhotoSet,
    mappers: dict[str, SaliencyMapper],
    area: float | None = None,
    size: int | None = None,
    console: Console | None = None,
) -> Results:
    """Evaluate each mapper, the centre box and the whole picture, under both resizing policies."""
    sides = {name: size or mapper.size for name, mapper in mappers.items()}
    common = next(iter(sides.values()))
    systems: dict[str, System] = {name: system_of(mapper, photos) for name, mapper in mappers.items()}
    systems |= {"centre box": center_system, "whole picture": whole_system}
    rows, squashed = [], {}
    with Progress(console=console or Console(quiet=True), transient=True) as bar:
        task = bar.add_task("evaluating", total=2 * len(annotated(photos)) * len(systems))
        for name, system in systems.items():
            side = sides.get(name, common)
            rows.append(evaluate(name, map_photos(system, photos, side, "crop", lambda: bar.advance(task)), area))
            other = map_photos(system, photos, side, "squash", lambda: bar.advance(task))
            squashed[name] = float(localization_errors(other).mean())
    return Results(rows, squashed)


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
            masks = np.stack([cv2.resize(mask, (side, side), interpolation=cv2.INTER_LINEAR) for mask in masks])
        if not mapper.network.predicts or len(here) < len(photos.classes):
            return masks, None
        return masks, np.array([here.get(int(index), -1) for index in logits.argmax(axis=1)])

    return system


def print_rows(results: Results, console: Console) -> None:
    """Print the table (central crop), and what the other resizing policy changes, as the supplement does."""
    rows = results.rows
    shown = [key for key in COLUMNS if any(key in row.numbers for row in rows)]
    table = Table(
        title=f"{len(rows[0].values['LE'])} photos, central crop, alpha = 1; 95 % bootstrap intervals", show_lines=True
    )
    table.add_column("")
    for row in rows:
        table.add_column(row.name, justify="right")
    for key in shown:
        title, scale = COLUMNS[key]
        table.add_row(title, *(text_of(row.numbers.get(key), scale) for row in rows))
    console.print(table)
    console.print(FORMULAS)
    for row in rows:
        crop, squash = row.numbers["LE"].value * 100, results.squashed[row.name] * 100
        if crop != squash:  # square photos are the same either way
            console.print(
                f"{row.name}: LE {crop:.1f} with the central crop, {squash:.1f} squashed: {squash - crop:+.1f}",
                soft_wrap=True,
            )


def text_of(number: Number | None, scale: float) -> str:
    """A number and, on a line of its own, its interval."""
    if number is None:
        return "-"
    value, low, high = (scale * x for x in (number.value, number.low, number.high))
    digits = 1 if scale > 1 or value >= 100 else 3
    return f"{value:.{digits}f}\n{low:.{digits}f} – {high:.{digits}f}"


def to_json(results: Results) -> str:
    """All numbers with their intervals."""
    content = {
        row.name: {
            **{key: dataclasses.asdict(number) for key, number in row.numbers.items()},
            "LE squashed": {"value": results.squashed[row.name]},
        }
        for row in results.rows
    }
    return json.dumps(content, indent=2) + "\n"
