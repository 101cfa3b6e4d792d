"""Check: can a mapping be trusted, told without boxes? What classifiers still see, and the photos to look at first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.background import warnings
from casmap.evaluation.numbers import mean_of, percent
from casmap.inference.components import binary_mask
from casmap.inference.mapper import Network, SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.io.tabular import to_csv
from casmap.models.classifier import Classifier
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import VERSIONS, WHOLE, answers, named, opened
from casmap.tools.page import Section, block, data_address, write_page

BATCH = 16
SMALL = 56  # side of the masks that are kept for all photos
SHOWN, ROW = 48, 8  # photos on the sheet, and in a row of it
ROWS = ("photo", "overlay", "masked-in", "inpainted")
HEAD = ("classifier", WHOLE, *VERSIONS)
OWN = "the mapping's own"
SUFFICIENT = 0.6  # of the accuracy on whole photos, below which the masks miss evidence

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CheckResult:
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


def check(
    mapping: Path, data: str, *, classifiers: Sequence[str] = (), out: Path = Path("check"), split: str | None = None,
    reporter: Reporter = SILENT,
) -> CheckResult:  # fmt: skip
    """Look at all photos, ask the mapping's own classifier and others, and write check.html, .csv and .json."""
    photos = open_photos(data, held_out=True, split=split)
    mapper = SaliencyMapper.load(mapping)
    if not mapper.network.predicts:
        raise UserError(
            "This mapping has an encoder of its own, which tells no classes: there is nothing to check with."
        )
    others = {name: opened(place, photos) for name, place in named(classifiers).items()}
    checked = look(mapper, photos, others, reporter)
    write_check(checked, photos, mapper, out)
    return checked


def look(mapper: SaliencyMapper, photos: PhotoSet, others: dict[str, Classifier], reporter: Reporter) -> CheckResult:
    """Show every photo whole, masked in, masked out and inpainted to all classifiers; the mapping's own comes first."""
    known = set(photos.classes) <= set(mapper.classes)
    numbers = np.array([mapper.classes.index(name) for name in photos.classes]) if known else None
    asked: dict[str, Network | Classifier] = {OWN: mapper.network, **others}
    right: dict[str, dict[str, list[Floats]]] = {name: {v: [] for v in (WHOLE, *VERSIONS)} for name in asked}
    sure: dict[str, list[Floats]] = {version: [] for version in (WHOLE, *VERSIONS)}
    small = []
    for at in reporter.track(range(0, len(photos), BATCH), "looking"):
        chosen = list(range(at, min(at + BATCH, len(photos))))
        pictures = np.stack([resize(photos.image(index), mapper.size, "squash") for index in chosen])
        masks, logits = mapper.masks(pictures)
        small += [cv2.resize(mask, (SMALL, SMALL), interpolation=cv2.INTER_AREA) for mask in masks]
        wanted = logits.argmax(axis=1) if numbers is None else numbers[photos.labels[chosen]]
        for name, version, seen in answers(asked, pictures, binary_mask(masks)):
            target = wanted if name == OWN else photos.labels[chosen]
            right[name][version].append((seen.argmax(axis=1) == target).astype(np.float64))
            if name == OWN:  # the softmax of the wanted class
                shifted = np.exp(seen.astype(np.float64) - seen.max(axis=1, keepdims=True))
                sure[version].append(shifted[np.arange(len(wanted)), wanted] / shifted.sum(axis=1))
    return CheckResult(
        list(photos.names), photos.labels, list(photos.classes),
        {name: {version: np.concatenate(parts) for version, parts in of.items()} for name, of in right.items()},
        {version: np.concatenate(parts) for version, parts in sure.items()}, np.stack(small).astype(np.float32), known,
    )  # fmt: skip


def rows(checked: CheckResult) -> list[list[str]]:
    """A row for each classifier: accuracy on each version, in percent, with its interval over photos."""
    return [[name, *(percent(mean_of(of[key])) for key in (WHOLE, *VERSIONS))] for name, of in checked.right.items()]


def write_check(checked: CheckResult, photos: PhotoSet, mapper: SaliencyMapper, out: Path) -> None:
    """A page with the worst photos first, and all numbers."""
    ranks = np.argsort(checked.worst) + 1
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
        Section("What classifiers still see", told, HEAD, rows(checked)),
        Section(
            "Worst first",
            "Photos whose class is still told by what lies outside the mask, or is not told by what lies inside. From "
            "top to bottom: the photo, mask and box, masked in, inpainted.", pictures=sheet,
        ),
    ]  # fmt: skip
    lead = f"{len(photos)} photos, no boxes: a mask is good if a classifier needs what it marks and nothing else."
    write_page(out / "check.html", "Can these masks be trusted?", lead, sections)
    write_whole(out / "check.csv", to_csv(records))
    means = {name: {version: float(x.mean()) for version, x in of.items()} for name, of in checked.right.items()}
    content = {"photos": len(checked.names), "known": checked.known, "right": means, "warnings": checked.complaints}
    write_whole(out / "check.json", json.dumps(content, indent=2) + "\n")
