"""The rows of Table 1: mappings and every baseline, on the same photos, classifier and protocol."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from casmap.baselines import BASELINES, Baseline, TrainingData, find_baseline
from casmap.data.photos import PhotoSet
from casmap.data.resizing import Policy
from casmap.errors import UserError
from casmap.evaluation.box_fit import ALPHA_ONE
from casmap.evaluation.by_size import SizeGroup
from casmap.evaluation.evaluate import Floats, Number, Predictions, Row, measure_masks, own_alpha_errors
from casmap.evaluation.fidelity import MOST, Judge, measure_fidelity
from casmap.evaluation.field_protocol import measure_field_protocol
from casmap.evaluation.numbers import mean_of, paired_difference
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.evaluation.wsol_protocol import measure_wsol
from casmap.inference.components import PAPER
from casmap.inference.mapper import load_mappers
from casmap.install_hint import install_hint
from casmap.io.atomic import write_whole
from casmap.io.kept_options import read_options
from casmap.models.classifier import Classifier
from casmap.models.files import save_classifier
from casmap.paper.crops import Crops, Indices, read_crops
from casmap.paper.study import DAMAGED, Study
from casmap.paper.table1_entries import (
    Entry,
    Work,
    classifier_pass,
    constant_entries,
    mapping_entry,
    maps_of,
    predict_classes,
)
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import fingerprint, open_classifier
from casmap.tools.judged import warn_of_own_judge

SHOWN = 7  # photos on the page
# How photos are made square besides the central crop: the folder of the maps, and what is measured on them.
OTHERS: dict[Policy, str] = {"squash and crop": "maps-field", "squash": "maps-squashed"}
OTHER_MEASURES: dict[Policy, Callable[[str, Predictions], Row]] = {
    "squash and crop": measure_field_protocol,
    "squash": measure_wsol,
}
OWN_ALPHA, OWN_RULE = "own alpha", "authors' rule"
ROUNDS, PATIENCE, BATCH = 5, 10.0, 8  # rounds of timing, seconds for all rounds of one method, photos at a time
REST = 0.1  # seconds to wait: threads of the previous work may still spin and take a core


@dataclass(frozen=True)
class Line:
    """A measured entry. errors: LE of each photo, for each way of turning a map into a box."""

    entry: Entry
    numbers: dict[str, Number]
    errors: dict[str, Floats] = field(repr=False)
    alphas: tuple[float, float]
    milliseconds: float
    shown: Floats = field(repr=False)  # masks (n, S, S) on the page
    by_size: dict[str, SizeGroup] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The name of the row."""
        return self.entry.name

    @property
    def strongest(self) -> str:
        """The way of turning a map into a box that has the lowest LE; the first in a tie."""
        return min(self.errors, key=lambda way: float(self.errors[way].mean()))


@dataclass(frozen=True)
class Table1:
    """All rows, the mappings first, and the milliseconds of the first mapping's classifier alone."""

    lines: list[Line]
    mappings: int
    classifier_milliseconds: float
    crops: Crops
    shown: list[int]  # indices of the photos on the page
    judge: str | None = None  # the classifier to which fidelity was measured

    @property
    def ranked(self) -> list[Line]:
        """The rows, the lowest LE at alpha 1 first."""
        return sorted(self.lines, key=lambda line: float(line.errors[ALPHA_ONE].mean()))


def measure_table1(
    photos: PhotoSet, *, mappings: Sequence[Path], classifier: str, out: Path, size: int = 224, unseen: bool = False,
    train_photos: PhotoSet | None = None, weights: Path | None = None, only: Sequence[str] = (), few: int = 100,
    judge: Judge | None = None, reporter: Reporter = SILENT,
) -> Table1:  # fmt: skip
    """Measure mappings and baselines on annotated photos; results are saved in `out`, and a second run resumes.

    unseen: the classifier may not know the photos' classes; then baselines are given the predicted class only.
    train_photos: photos with classes, for the baselines that must be trained. weights: folder of the files that
    baselines need and casmap does not contain. only: names of baselines. few: photos for baselines that take seconds
    for each. judge: a classifier that took no part in training, to measure the fidelity of all maps to it.
    """
    f, matches = open_classifier(classifier, photos)
    if not matches and not unseen:
        raise UserError(
            f"The classifier {classifier} does not have exactly the {len(photos.classes)} classes of the photos: name "
            "one trained on them with --classifier, or add --unseen to explain the predicted class only."
        )
    mappers = load_mappers(mappings)
    crops = read_crops(photos, size)
    squares = {policy: read_crops(photos, size, policy) for policy in OTHERS}
    for_training = np.array([is_tuning(name, 0.5) for name in crops.names])
    baselines = choose_baselines(only, train_photos, photos if matches else None, for_training, reporter, weights)
    if judge is not None:
        own = {name: mapper.about.get("backbone") for name, mapper in mappers.items()}
        warn_of_own_judge(judge, {"the baselines": f.backbone} | own, reporter)
    study = begin(out, f, crops)
    file = out / "classifier.safetensors"
    if matches:
        save_classifier(file, f, list(photos.classes), {"origin": "The classifier that the baselines explain."})
    trained_in, every = out, [crops, *squares.values()]
    predicted = [predict_classes(f, one.images) for one in every]
    if train_photos is not None:  # other photos get another folder
        content = json.dumps([list(train_photos.classes), list(train_photos.names), train_photos.labels.tolist()])
        trained_in = out / f"learned-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    sizes = [np.prod(truth.boxes[:, 2:] - truth.boxes[:, :2], axis=1) for truth in crops.truths]
    largest = np.stack([truth.boxes[of.argmax()] for truth, of in zip(crops.truths, sizes, strict=True)])
    material = TrainingData(
        f, file, train_photos, crops.images[for_training], largest[for_training], trained_in, reporter, weights
    )
    entries = [mapping_entry(name, mapper, photos, crops, squares) for name, mapper in mappers.items()]
    for baseline in baselines:
        maps, classes = maps_of(baseline, material, crops, predicted[0], out / "maps"), predicted
        if maps.classifier is not f:
            classes = [predict_classes(maps.classifier, one.images) for one in every]
        pairs = zip(squares, classes[1:], strict=True)
        others = {policy: (maps.on(squares[policy], out / OTHERS[policy]), of) for policy, of in pairs}
        entries += maps.entries(classes[0], matches, for_training, few, others)
    entries += constant_entries(crops, squares)
    alone = classifier_pass(mappings[0], next(iter(mappers.values())), crops)
    works = list(dict.fromkeys([alone, *(entry.work for entry in entries if entry.seconds is None)]))
    times = dict(zip(works, milliseconds(works, len(crops)), strict=True))
    everywhere = reduce(np.intersect1d, [entry.chosen for entry in entries])
    show = crops.shuffled[np.isin(crops.shuffled, everywhere)][:SHOWN]
    lines = []
    for entry in entries:
        found = all_masks(entry, entry.masks, reporter)
        took = times[entry.work] if entry.seconds is None else 1000 * entry.seconds(entry.chosen)
        lines.append(measure(entry, found, crops, took, show))
        for policy, masks in entry.others.items():
            other = squares[policy].predictions(entry.chosen, all_masks(entry, masks, reporter), None)
            lines[-1].numbers.update(OTHER_MEASURES[policy](entry.name, other).numbers)
        if judge is not None:
            lines[-1].numbers.update(judged(entry, found, crops, photos.classes, judge, study, reporter).numbers)
    return Table1(lines, len(mappers), times[alone], crops, show.tolist(), None if judge is None else judge.name)


def judged(
    entry: Entry, masks: Floats, crops: Crops, classes: Sequence[str], judge: Judge, study: Study, reporter: Reporter
) -> Row:
    """The fidelity of an entry's masks (n, S, S) to the judge, on the same few photos for every row that has them.

    It is stored in the study for these masks, true boxes and weights of the judge.
    """
    which = np.flatnonzero(np.isin(entry.chosen, crops.few(MOST)))
    of = entry.chosen[which]
    targets = judge.targets(crops.images[of], [classes[label] for label in crops.labels[of]])
    boxes = [crops.truths[index].boxes for index in of]
    given = [judge.key.encode(), *(array.tobytes() for array in (of, masks[which], targets, *boxes))]

    def values() -> dict[str, list[float]]:
        with reporter.progress(f"{entry.name}, judged by {judge.name}", len(of)) as advance:
            row = measure_fidelity(entry.name, masks[which], crops.images[of], targets, judge, boxes, PAPER, advance)
        return {key: array.tolist() for key, array in row.values.items()}

    stored = study.part(f"fidelity of {entry.name} {hashlib.sha256(b''.join(given)).hexdigest()}", values)
    arrays = {key: np.array(of_photos) for key, of_photos in stored.items()}
    return Row(entry.name, {key: mean_of(array) for key, array in arrays.items()}, arrays)


def all_masks(entry: Entry, masks: Callable[[Indices], Floats], reporter: Reporter) -> Floats:
    """The masks (n, S, S) of an entry's photos, computed in batches."""
    parts = np.array_split(entry.chosen, -(-len(entry.chosen) // entry.batch))
    return np.concatenate([masks(part) for part in reporter.track(parts, entry.name)])


def find_baselines(only: Sequence[str]) -> list[Baseline]:
    """The named baselines, or all in the order of the paper's table, then newer ones, then those that are trained."""
    if only:
        known = [find_baseline(name) for name in only]
    else:
        known = sorted(BASELINES.values(), key=lambda b: (b.learn is not None, b.paper_le is None, -(b.paper_le or 0)))
    return list({baseline.name: baseline for baseline in known}.values())


def choose_baselines(
    only: Sequence[str], train_photos: PhotoSet | None, photos: PhotoSet | None, for_training: npt.NDArray[np.bool_],
    reporter: Reporter, weights: Path | None = None,
) -> list[Baseline]:  # fmt: skip
    """The named baselines, an error if one is impossible; or all, without those that lack a requirement.

    train_photos: photos to train on. photos: those to measure on, if the classifier knows their classes. for_training
    (N,): photos whose boxes may be used in training. weights: folder of files that casmap does not contain.
    """
    if train_photos is not None and photos is not None and list(train_photos.classes) != list(photos.classes):
        raise UserError("The photos of --train have other classes than the photos of DATA.")
    chosen = find_baselines(only)
    missing = {}
    for baseline in chosen:
        if baseline.extra is not None and find_spec(baseline.extra) is None:
            missing[baseline.name] = install_hint(baseline.extra)
        elif baseline.file is not None:
            if weights is None or not (weights / baseline.file).is_file():
                missing[baseline.name] = f"--weights FOLDER with {baseline.file}"
        elif baseline.uses == "boxes":
            if for_training.all() or not for_training.any():
                missing[baseline.name] = "more photos"
        elif baseline.learn is not None and photos is None:
            missing[baseline.name] = "a --classifier of the photos' classes"
        elif baseline.learn is not None and train_photos is None:
            missing[baseline.name] = "--train PHOTOS of the same classes"
    if missing:
        listed = ", ".join(f"{name} ({what})" for name, what in missing.items())
        if only:
            raise UserError(f"Not possible (missing requirement in parentheses): {listed}.")
        reporter.message(f"Skipped (missing requirement in parentheses): {listed}.")
    return [baseline for baseline in chosen if baseline.name not in missing]


def milliseconds(works: Sequence[Work], photos: int) -> list[float]:
    """The milliseconds of each work for a photo: the median over rounds in which the works take turns.

    A work is called with indices of photos: once with one photo to warm up, once to find how many photos the time
    limit allows, at least one.

    >>> sleeping, idle = milliseconds([lambda chosen: time.sleep(0.001 * len(chosen)), len], photos=3)
    >>> sleeping > idle
    True
    """
    _, once = ([_seconds(work, 1) for work in works] for _ in range(2))
    counts = [max(1, min(BATCH, photos, int(PATIENCE / ROUNDS / max(seconds, 1e-6)))) for seconds in once]
    turns = [[_seconds(*pair) for pair in zip(works, counts, strict=True)] for _ in range(ROUNDS)]
    return [1000 * float(median / count) for median, count in zip(np.median(turns, axis=0), counts, strict=True)]


def _seconds(work: Work, count: int) -> float:
    """The seconds of a work on the first `count` photos, measured after a pause."""
    time.sleep(REST)
    began = time.perf_counter()
    work(np.arange(count))
    return time.perf_counter() - began


def begin(out: Path, classifier: Classifier, crops: Crops) -> Study:
    """The folder of the study, which holds maps of one classifier and one set of photos; others are refused."""
    old, kept = out / "setting.json", out / "options.json"
    if old.exists() and not kept.exists():  # the file of 0.1.0
        before = read_options(old, DAMAGED)
        write_whole(
            kept, json.dumps({key: value if key == "size" else str(value)[:8] for key, value in before.items()})
        )
    photos = hashlib.sha256(os.fsencode("\n".join(crops.names)) + crops.images.tobytes()).hexdigest()
    return Study(out, {"size": crops.size, "photos": photos[:8], "classifier": fingerprint(classifier)[:8]})


def measure(entry: Entry, masks: Floats, crops: Crops, took: float, show: Indices) -> Line:
    """A row: all measures of `measure_masks`, LE at the row's own alpha and by its authors' rule."""
    predictions = crops.predictions(entry.chosen, masks, entry.predicted)
    row = measure_masks(entry.name, predictions)
    own, alphas = own_alpha_errors(predictions)
    errors = {ALPHA_ONE: row.values["LE"], OWN_ALPHA: own}
    if entry.rule is not None:
        errors[OWN_RULE] = entry.rule.errors(predictions, crops.images[entry.chosen])
    numbers = row.numbers | {f"LE, {way}": mean_of(values) for way, values in errors.items()}
    return Line(entry, numbers, errors, alphas, took, masks[np.searchsorted(entry.chosen, show)], row.by_size)


def difference(ours: Line, theirs: Line) -> Number:
    """LE of a mapping at alpha 1 minus the lowest LE of a row, on their common photos: below 0 the row is worse."""
    _, mine, yours = np.intersect1d(ours.entry.chosen, theirs.entry.chosen, return_indices=True)
    return paired_difference(ours.errors[ALPHA_ONE][mine], theirs.errors[theirs.strongest][yours])
