"""Check: can a mapping be trusted, told without boxes? What classifiers still see, and the photos to look at first."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from casmap.evaluation.background import warnings
from casmap.evaluation.numbers import mean_of, percent
from casmap.inference.components import binary_mask
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.atomic import write_whole
from casmap.io.tabular import to_csv
from casmap.tools.classifiers import VERSIONS, WHOLE, opened, short_names
from casmap.tools.page import Section, data_address, write_page
from casmap.tools.pictures import block

BATCH = 16
SMALL = 56  # side of the masks that are kept for all photos
SHOWN, ROW = 48, 8  # photos on the sheet, and in a row of it
ROWS = ("photo", "overlay", "masked-in", "inpainted")
OWN = "the mapping's own"
SUFFICIENT = 0.6  # of the accuracy on whole photos, below which the masks miss evidence

Floats = npt.NDArray[np.float64]
Logits = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Checked:
    """What was seen, photo by photo.

    right: for each classifier and version, whether it tells the class (N,). sure: for each version, how sure the
    mapping's own classifier is of the class (N,). masks (N, 56, 56), labels (N,). known: whether classes are the
    photos' own; where the mapping knows others, its opinion of the whole photo takes their place.
    """

    names: list[str]
    labels: npt.NDArray[np.int64]
    classes: list[str]
    right: dict[str, dict[str, Floats]]
    sure: dict[str, Floats]
    masks: npt.NDArray[np.float32]
    known: bool

    @property
    def worst(self) -> npt.NDArray[np.int64]:
        """Numbers of photos, the worst masks first: what is left still tells the class, what is kept does not."""
        return np.argsort(self.sure["masked-in"] - self.sure["inpainted"], kind="stable")

    @property
    def complaints(self) -> list[str]:
        """A sentence for each reason not to trust the masks."""
        own = {version: float(values.mean()) for version, values in self.right[OWN].items()}
        found = warnings(self.masks, self.labels, self.classes)
        if own["masked-in"] < SUFFICIENT * own[WHOLE]:
            found.append(
                f"From the masks alone the classifier is right in {own['masked-in']:.0%}, from whole photos in "
                f"{own[WHOLE]:.0%}: the masks miss evidence."
            )
        if own["inpainted"] > own[WHOLE] / 2:
            found.append(
                f"With the evidence painted over the classifier is still right in {own['inpainted']:.0%}: much of it "
                "lies outside the masks."
            )
        return found


def run_check(
    mapping: Path, data: str, out: Path, named: list[str] | None, split: str | None, console: Console
) -> Checked:
    """Look at all photos, print what classifiers see, and write check.html, .csv and .json."""
    photos = open_photos(data, held_out=True, split=split)
    mapper = SaliencyMapper.load(mapping)
    if not mapper.network.predicts:
        raise UserError(
            "This mapping has an encoder of its own, which tells no classes: there is nothing to check with."
        )
    others = {name: opened(place, photos) for name, place in zip(short_names(named or []), named or [], strict=True)}
    eyes: dict[str, tuple[Logits, tuple[float, ...]]] = {
        OWN: (lambda pictures: mapper.masks(pictures)[1], mapper.network.mean)
    }
    for name, f in others.items():
        eyes[name] = (_eye(f), f.mean)
    checked = look(mapper, photos, eyes, console)
    print_check(checked, console)
    write_check(checked, photos, mapper, out)
    console.print(f"\nSheet: {out / 'check.html'}", soft_wrap=True)
    return checked


def look(
    mapper: SaliencyMapper, photos: PhotoSet, eyes: dict[str, tuple[Logits, tuple[float, ...]]], console: Console
) -> Checked:
    """Show every photo whole, masked in, masked out and inpainted to all classifiers; the mapping's own comes first."""
    known = set(photos.classes) <= set(mapper.classes)
    numbers = np.array([mapper.classes.index(name) for name in photos.classes]) if known else None
    right: dict[str, dict[str, list[Floats]]] = {name: {v: [] for v in (WHOLE, *VERSIONS)} for name in eyes}
    sure: dict[str, list[Floats]] = {version: [] for version in (WHOLE, *VERSIONS)}
    small = []
    with Progress(console=console, transient=True) as bar:
        for at in bar.track(range(0, len(photos), BATCH), description="looking"):
            chosen = list(range(at, min(at + BATCH, len(photos))))
            pictures = np.stack([resize(photos.image(index), mapper.size, "squash") for index in chosen])
            masks, logits = mapper.masks(pictures)
            small.append(np.stack([resize_mask(mask) for mask in masks]))
            wanted = logits.argmax(axis=1) if numbers is None else numbers[photos.labels[chosen]]
            binary = binary_mask(masks)
            filled = [SaliencyMap(x, m.astype(np.float32)).inpainted() for x, m in zip(pictures, binary, strict=True)]
            for name, (eye, mean) in eyes.items():
                target = wanted if name == OWN else photos.labels[chosen]
                for version, shown in versions(pictures, binary, np.stack(filled), mean).items():
                    seen = eye(shown)
                    right[name][version].append((seen.argmax(axis=1) == target).astype(np.float64))
                    if name == OWN:
                        sure[version].append(_probability(seen, target))
    return Checked(
        list(photos.names),
        photos.labels,
        list(photos.classes),
        {name: {version: np.concatenate(parts) for version, parts in of.items()} for name, of in right.items()},
        {version: np.concatenate(parts) for version, parts in sure.items()},
        np.concatenate(small),
        known,
    )


def versions(
    pictures: npt.NDArray[np.uint8],
    masks: npt.NDArray[np.bool_],
    filled: npt.NDArray[np.uint8],
    mean: tuple[float, ...],
) -> dict[str, npt.NDArray[np.uint8]]:
    """Pictures (n, S, S, 3) whole, with only what masks (n, S, S) mark, without it, and inpainted.

    >>> shown = versions(np.zeros((1, 2, 2, 3), np.uint8), np.eye(2, dtype=bool)[None], np.ones((1, 2, 2, 3), np.uint8),
    ...     (0.5, 0.5, 0.5))
    >>> shown["masked-in"][0, ..., 0].tolist()
    [[0, 128], [128, 0]]
    """
    colour = np.rint(255 * np.array(mean)).astype(np.uint8)
    marked = masks[..., None]
    return {
        WHOLE: pictures,
        "masked-in": np.where(marked, pictures, colour),
        "masked-out": np.where(marked, colour, pictures),
        "inpainted": filled,
    }


def resize_mask(mask: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """A mask as small as it is kept."""
    return np.asarray(cv2.resize(mask, (SMALL, SMALL), interpolation=cv2.INTER_AREA), np.float32)


def _eye(f: Any) -> Logits:
    """A torch classifier as what looks at pictures."""
    import torch

    from casmap.data.batches import normalised

    def look_with(pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            return np.asarray(f(normalised(pictures, f.mean, f.std)).numpy())

    return look_with


def _probability(logits: npt.NDArray[np.float32], wanted: npt.NDArray[np.int64]) -> Floats:
    """The softmax of the wanted class: (n, C), (n,) -> (n,)."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted[np.arange(len(wanted)), wanted] / shifted.sum(axis=1))


def rows(checked: Checked) -> list[list[str]]:
    """A row for each classifier: accuracy on each version, in percent, with its interval over photos."""
    return [
        [name, *(percent(mean_of(of[version])) for version in (WHOLE, *VERSIONS))] for name, of in checked.right.items()
    ]


def print_check(checked: Checked, console: Console) -> None:
    """The table, and every reason not to trust the masks."""
    what = "right" if checked.known else "of the same opinion as about the whole photo"
    table = Table(title=f"{len(checked.names)} photos: how often classifiers are {what}, percent [95 %]")
    for place, title in enumerate(("classifier", WHOLE, *VERSIONS)):
        table.add_column(title, justify="right" if place else "left")
    for row in rows(checked):
        table.add_row(*row)
    console.print(table)
    for sentence in checked.complaints:
        console.print(f"Warning: {sentence}", style="yellow", soft_wrap=True)


def write_check(checked: Checked, photos: PhotoSet, mapper: SaliencyMapper, out: Path) -> None:
    """A page with the worst photos first, and all numbers."""
    ranks = np.empty(len(checked.names), np.int64)
    ranks[checked.worst] = np.arange(1, len(ranks) + 1)
    records: list[dict[str, Any]] = [
        {"photo": name, "class": checked.classes[checked.labels[index]], "worst": int(ranks[index])}
        | {f"sure, {version}": round(float(values[index]), 4) for version, values in checked.sure.items()}
        | {"area": round(float(checked.masks[index].mean()), 4)}
        for index, name in enumerate(checked.names)
    ]
    sheet = []
    for begin in range(0, min(SHOWN, len(photos)), ROW):
        chosen = [int(index) for index in checked.worst[begin : begin + ROW][: SHOWN - begin]]
        maps = mapper([photos.image(index) for index in chosen])
        sheet.append((", ".join(checked.names[index] for index in chosen), data_address(block(maps, ROWS))))
    told = "\n".join(checked.complaints) or "Nothing speaks against these masks."
    sections = [
        Section("What classifiers still see", told, ("classifier", WHOLE, *VERSIONS), rows(checked)),
        Section(
            "Worst first",
            "Photos whose class is still told by what lies outside the mask, or is not told by what lies inside. From "
            "top to bottom: the photo, mask and box, masked in, inpainted.",
            pictures=sheet,
        ),
    ]
    lead = f"{len(photos)} photos, no boxes: a mask is good if a classifier needs what it marks and nothing else."
    write_page(out / "check.html", "Can these masks be trusted?", lead, sections)
    write_whole(out / "check.csv", to_csv(records))
    numbers = {
        name: {version: float(values.mean()) for version, values in of.items()} for name, of in checked.right.items()
    }
    content = {"photos": len(checked.names), "known": checked.known, "right": numbers, "warnings": checked.complaints}
    write_whole(out / "check.json", json.dumps(content, indent=2) + "\n")
