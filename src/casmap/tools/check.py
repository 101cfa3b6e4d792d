"""Check masks without boxes: a verdict, what classifiers still recognise, and the photos to inspect first."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.burnt_in import burnt_in_warnings, strokes
from casmap.evaluation.evaluate import Row
from casmap.evaluation.fidelity import fidelity_note, fidelity_table
from casmap.evaluation.numbers import mean_of, percent, signed
from casmap.evaluation.trust import SMALL, Measured, measure, target_probability
from casmap.evaluation.verdict import INPAINTED, MASKED_IN, WHOLE, Judgement, judge, with_warnings
from casmap.inference.components import Threshold
from casmap.inference.edges import fit_mask
from casmap.inference.mapper import SHIPPED, Network, SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.io.images import encode_png
from casmap.io.lock import locked
from casmap.io.names import written
from casmap.io.tabular import to_csv
from casmap.models.classifier import Classifier
from casmap.reporting import SILENT, Reporter, counted
from casmap.tools.classifiers import VERSIONS, logits_of_versions, open_judge, open_matching_classifier, short_names
from casmap.tools.judged import measure_judged
from casmap.tools.page import Section, block, write_page

BATCH = 16
SHOWN, ROW = 48, 8  # photos on the page, and in each of its rows
ROWS = ("photo", "overlay", "masked-in", "inpainted")
HEAD = ("classifier", WHOLE, *VERSIONS)
OWN, OWN_MASKS = "the mapping's own", "the masks"
AGAINST = ("masks", "masked-in", "inpainted", "gain of the masks")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CheckResult:
    """The findings for each photo.

    correct: for each classifier and version, whether it predicts the class (N,). confidence: for each version, the
    probability that the mapping's own classifier gives to the class (N,). masks (N, 56, 56), labels (N,). known:
    whether the mapping knows the photos' classes; if not, its prediction for the whole photo replaces them. measured:
    the comparison with control masks, on at most 200 of the photos. strokes: pixels of thin bright strokes (N,).
    fidelity: to a classifier that took no part in training, on as many.
    """

    names: list[str]
    labels: npt.NDArray[np.int64]
    classes: list[str]
    correct: dict[str, dict[str, Floats]]
    confidence: dict[str, Floats]
    masks: npt.NDArray[np.float32]
    known: bool
    measured: Measured | None = None
    strokes: npt.NDArray[np.int64] | None = None
    fidelity: Sequence[Row] = ()

    @property
    def worst(self) -> npt.NDArray[np.int64]:
        """Indices of photos, the worst masks first: the class is recognised outside the mask and not inside it."""
        return np.argsort(self.confidence["masked-in"] - self.confidence["inpainted"], kind="stable")

    @cached_property
    def judgement(self) -> Judgement:
        """The verdict, with one sentence for each reason not to trust the masks."""
        of_all, found = (self.masks, self.labels, self.classes, self.correct[OWN]), self.measured
        if found is None:
            judgement = judge(*of_all, {}, 0)
        else:
            judgement = judge(*of_all, found.gains, len(found.masks), found.agreement, found.class_gains)
        return with_warnings(judgement, self.burnt_in)

    @cached_property
    def burnt_in(self) -> list[str]:
        """The sentence about letters and calipers in grey photos, if they may reveal the class."""
        return [] if self.strokes is None else burnt_in_warnings(self.strokes, self.labels, self.classes)

    @property
    def verdict(self) -> str:
        """Good, doubtful or failed."""
        return self.judgement.verdict

    @property
    def warnings(self) -> list[str]:
        """One sentence for each reason not to trust the masks."""
        return list(self.judgement.reasons)


def check(
    data: str | os.PathLike[str], *, mapping: str | os.PathLike[str] | None = None, classifiers: Sequence[str] = (),
    fidelity: str | None = None, out: Path = Path("check"), split: str | None = None, reporter: Reporter = SILENT,
) -> CheckResult:  # fmt: skip
    """Check the masks of all photos with the mapping's own classifier and others; write check.html, .csv and .json.

    data: photos in any supported layout, or scenes[:options]. mapping: a file (default: the shipped mapping).
    classifiers: a file that casmap wrote, a backbone's name, or BACKBONE=FILE. fidelity: one more, which took no part
    in training: measure how faithful the masks are to it.
    """
    photos = open_photos(os.fspath(data), held_out=True, split=split)
    mapper = SaliencyMapper.load(mapping)
    if not mapper.network.predicts:
        raise UserError(
            f"{mapping} has a separate encoder and predicts no classes, so there is no classifier to check its masks "
            "with: name a mapping that was trained with encoder = shared."
        )
    others = {name: open_matching_classifier(place, photos) for name, place in short_names(classifiers).items()}
    shipped = None if mapping is None or not SHIPPED.exists() else SaliencyMapper.load()
    judge = None if fidelity is None else open_judge(fidelity)
    checked = check_photos(mapper, photos, others, reporter, shipped)
    if judge is not None:
        checked = replace(checked, fidelity=measure_judged(photos, {OWN_MASKS: mapper}, judge, reporter=reporter))
    with locked(out, reporter):
        write_check(checked, photos, mapper, out)
    return checked


def check_photos(
    mapper: SaliencyMapper, photos: PhotoSet, others: dict[str, Classifier], reporter: Reporter,
    shipped: SaliencyMapper | None = None,
) -> CheckResult:  # fmt: skip
    """Classify every photo whole, masked in, masked out and inpainted, with the mapping's own classifier first.

    shipped: the shipped mapping, if it is another one, to measure the agreement with it.
    """
    known = set(photos.classes) <= set(mapper.classes)
    numbers = np.array([mapper.classes.index(name) for name in photos.classes]) if known else None
    classifiers: dict[str, Network | Classifier] = {OWN: mapper.network, **others}
    correct: dict[str, dict[str, list[Floats]]] = {name: {v: [] for v in (WHOLE, *VERSIONS)} for name in classifiers}
    confidence: dict[str, list[Floats]] = {version: [] for version in (WHOLE, *VERSIONS)}
    small, pixels = [], []
    with reporter.progress("Checking photos", len(photos)) as advance:
        for at in range(0, len(photos), BATCH):
            chosen = list(range(at, min(at + BATCH, len(photos))))
            images = np.stack([resize(photos.image(index), mapper.size, "squash") for index in chosen])
            decoded, own_logits = mapper.masks(images)
            masks = np.stack([fit_mask(*one, mapper.edges) for one in zip(decoded, images, images, strict=True)])
            small += [cv2.resize(mask, (SMALL, SMALL), interpolation=cv2.INTER_AREA) for mask in masks]
            pixels += [int(strokes(image).sum()) for image in images]
            own_target = own_logits.argmax(axis=1) if numbers is None else numbers[photos.labels[chosen]]
            for name, version, logits in logits_of_versions(classifiers, images, Threshold().binary(masks)):
                target = own_target if name == OWN else photos.labels[chosen]
                correct[name][version].append((logits.argmax(axis=1) == target).astype(np.float64))
                if name == OWN:
                    confidence[version].append(target_probability(logits, own_target))
            advance(len(chosen))
    return CheckResult(
        list(photos.names), photos.labels, list(photos.classes),
        {name: {version: np.concatenate(parts) for version, parts in of.items()} for name, of in correct.items()},
        {version: np.concatenate(parts) for version, parts in confidence.items()},
        np.stack(small).astype(np.float32), known, measure(mapper, photos, shipped=shipped, reporter=reporter),
        np.array(pixels),
    )  # fmt: skip


def rows(checked: CheckResult) -> list[list[str]]:
    """One row for each classifier: its accuracy on each version in percent, with its interval over photos."""
    return [[name, *(percent(mean_of(of[key])) for key in (WHOLE, *VERSIONS))] for name, of in checked.correct.items()]


def against(measured: Measured) -> list[list[str]]:
    """One row for the masks and each kind of control mask: accuracy masked in and inpainted, and the gain over them."""
    rows = []
    for name, of in measured.correct.items():
        gain = measured.gains.get(name)
        shown = "" if gain is None else signed(gain)
        rows.append([name, *(percent(mean_of(of[version])) for version in (MASKED_IN, INPAINTED)), shown])
    return rows


def in_classes(measured: Measured) -> list[list[str]]:
    """One row for each class with enough photos: the gain of the masks over each kind of control mask."""
    return [[name, *map(signed, gains.values())] for name, gains in measured.class_gains.items()]


def write_check(checked: CheckResult, photos: PhotoSet, mapper: SaliencyMapper, out: Path) -> None:
    """Write the page with the worst photos first, and all numbers."""
    ranks = np.argsort(checked.worst) + 1
    records: list[dict[str, Any]] = [
        {"photo": written(name), "class": written(checked.classes[checked.labels[index]]), "worst": int(ranks[index])}
        | {f"confidence, {version}": round(float(values[index]), 4) for version, values in checked.confidence.items()}
        | {"area": round(float(checked.masks[index].mean()), 4)}
        for index, name in enumerate(checked.names)
    ]
    sections = [
        Section(
            f"Verdict: {checked.verdict}", "\n".join(checked.warnings) or "Nothing speaks against these masks.",
            HEAD, rows(checked),
        ),
    ]  # fmt: skip
    if checked.measured is not None:
        text = (
            "Control masks have the same area and do not depend on what the photo shows. "
            f"{len(checked.measured.masks)} photos. Gain: by how much the masks have more of log p(masked in) / "
            "p(inpainted), p the probability of the class."
        )
        if checked.measured.agreement is not None:
            text += f"\n{checked.measured.agreement.sentence}"
        sections.append(Section("Against control masks", text, AGAINST, against(checked.measured)))
        if by_class := in_classes(checked.measured):
            text = "The gains in each class with at least 20 photos. A class may have nothing that could be marked."
            sections.append(Section("Class by class", text, ("class", *checked.measured.gains), by_class))
    if checked.fidelity:
        count = len(next(iter(checked.fidelity[0].values.values())))
        title = f"Fidelity to another classifier: {counted(count, 'photo')}"
        sections.append(Section(title, fidelity_note(Threshold()), *fidelity_table(checked.fidelity)))
    for label, name in enumerate(checked.classes):
        if told := [sentence for sentence in checked.warnings if f"the photos of {name} the mask" in sentence]:
            of_class = np.flatnonzero(checked.labels == label)[:ROW]
            sections.append(Section(f"Photos of {name}", told[0], images=[_figure(of_class, checked, photos, mapper)]))
    for sentence in checked.burnt_in:
        assert checked.strokes is not None
        most = np.argsort(-checked.strokes, kind="stable")[:ROW]
        sections.append(Section("Thin bright strokes", sentence, images=[_figure(most, checked, photos, mapper)]))
    worst = checked.worst[:SHOWN]
    sections.append(
        Section(
            "Worst first",
            "Photos whose class is still recognised outside the mask, or is not recognised inside it. From top to "
            "bottom: the photo, mask and box, masked in, inpainted.",
            images=[_figure(worst[at : at + ROW], checked, photos, mapper) for at in range(0, len(worst), ROW)],
        )
    )  # fmt: skip
    lead = (
        f"{len(photos)} photos, checked without boxes: a mask is good if a classifier recognises the class from the "
        "masked-in photo, and no longer recognises it once the masked pixels are inpainted, and if no control mask of "
        "the same area does as well."
    )
    write_page(out / "check.html", "Can these masks be trusted?", lead, sections)
    write_whole(out / "check.csv", to_csv(records))
    means = {name: {version: float(x.mean()) for version, x in of.items()} for name, of in checked.correct.items()}
    content = {"photos": len(checked.names), "known": checked.known, "right": means, "warnings": checked.warnings}
    content |= {"verdict": checked.verdict, "judgement": checked.judgement.to_json()}
    if checked.fidelity:
        content["fidelity"] = {
            row.name: {"photos": len(next(iter(row.values.values())))}
            | {key: vars(one) for key, one in row.numbers.items()}
            for row in checked.fidelity
        }
    write_whole(out / "check.json", json.dumps(content, indent=2) + "\n")


def _figure(
    chosen: npt.NDArray[np.int64], checked: CheckResult, photos: PhotoSet, mapper: SaliencyMapper
) -> tuple[str, bytes]:
    """The names of photos, and a PNG file with a row of them, their overlays, and what masks keep and leave."""
    maps = mapper([photos.image(int(index)) for index in chosen])
    return ", ".join(checked.names[index] for index in chosen), encode_png(block(maps, ROWS))
