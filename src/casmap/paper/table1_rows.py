"""The rows of Table 1: mappings beside every baseline, on the same photos, classifier and protocol."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from casmap.baselines import BASELINES, Baseline, TrainingData, find_baseline
from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.evaluation.evaluate import Floats, Number, measure_masks, own_alpha_errors
from casmap.evaluation.numbers import apart, mean_of
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.mapper import SaliencyMapper, names_of
from casmap.install_hint import install_hint
from casmap.io.atomic import write_whole
from casmap.io.kept_options import read_options
from casmap.models.classifier import Classifier
from casmap.models.files import save_classifier
from casmap.paper.crops import Crops, Indices, read_crops
from casmap.paper.study import DAMAGED, Study
from casmap.paper.table1_entries import Entry, Work, bare, constant_entries, mapping_entry, maps_of, see
from casmap.reporting import SILENT, Reporter
from casmap.tools.classifiers import fingerprint, open_classifier

SHOWN = 7  # photos on the page
ALPHA_ONE, OWN_ALPHA, OWN_RULE = "alpha 1", "own alpha", "authors' rule"
ROUNDS, PATIENCE, BATCH = 5, 10.0, 8  # of timing, the seconds that all rounds of one way may take, photos at a time
REST = 0.1  # seconds for which threads of the work before may still spin, and take a core from the one timed


@dataclass(frozen=True)
class Line:
    """An entry as it was measured. errors: LE photo by photo, for each way of making a box of a map."""

    entry: Entry
    numbers: dict[str, Number]
    errors: dict[str, Floats] = field(repr=False)
    alphas: tuple[float, float]
    milliseconds: float
    shown: Floats = field(repr=False)  # masks (n, S, S) for the page

    @property
    def name(self) -> str:
        """As the row is called."""
        return self.entry.name

    @property
    def strongest(self) -> str:
        """The way in which it errs least; of equals the first."""
        return min(self.errors, key=lambda way: float(self.errors[way].mean()))


@dataclass(frozen=True)
class Table1:
    """All rows, those of the mappings first; and the milliseconds of the first mapping's classifier alone."""

    lines: list[Line]
    mappings: int
    bare: float
    crops: Crops
    shown: list[int]  # numbers of the photos on the page

    @property
    def ranked(self) -> list[Line]:
        """The rows, fewest errors at alpha 1 first."""
        return sorted(self.lines, key=lambda line: float(line.errors[ALPHA_ONE].mean()))


def measure_table1(
    photos: PhotoSet, *, mappings: Sequence[Path], classifier: str, out: Path, size: int = 224, unseen: bool = False,
    to_learn: PhotoSet | None = None, only: Sequence[str] = (), few: int = 100, reporter: Reporter = SILENT,
) -> Table1:  # fmt: skip
    """Measure mappings and baselines on annotated photos; what is made is kept in `out`: a second start goes on.

    unseen: the photos' classes may be new to the classifier; then baselines have the predicted class only.
    to_learn: photos with classes, for the baselines that learn from them. only: some baselines by name. few: photos
    for those that take seconds for each.
    """
    f, knows = open_classifier(classifier, photos)
    if not knows and not unseen:
        raise UserError(
            f"The classifier {classifier} does not know exactly the {len(photos.classes)} classes of the photos: "
            "name one trained on them with --classifier, or let it explain the class that it sees with --unseen."
        )
    mappers = [SaliencyMapper.load(path) for path in mappings]
    crops = read_crops(photos, size)
    to_fit = np.array([is_tuning(name, 0.5) for name in crops.names])
    baselines = choose_baselines(only, to_learn, photos if knows else None, to_fit, reporter)
    begin(out, f, crops)
    file = out / "classifier.safetensors"
    if knows:
        save_classifier(file, f, list(photos.classes), {"origin": "What the baselines explain."})
    seen, learned = see(f, crops.pictures), out
    if to_learn is not None:  # another folder for others
        content = json.dumps([list(to_learn.classes), list(to_learn.names), to_learn.labels.tolist()])
        learned = out / f"learned-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    sizes = [np.prod(truth.boxes[:, 2:] - truth.boxes[:, :2], axis=1) for truth in crops.truths]
    largest = np.stack([truth.boxes[of.argmax()] for truth, of in zip(crops.truths, sizes, strict=True)])
    material = TrainingData(f, file, to_learn, crops.pictures[to_fit], largest[to_fit], learned, reporter)
    entries = [mapping_entry(*named, photos, crops) for named in zip(names_of(list(mappings)), mappers, strict=True)]
    for baseline in baselines:
        maps = maps_of(baseline, material, crops, seen, out / "maps")
        classes = seen if maps.classifier is f else see(maps.classifier, crops.pictures)
        entries += maps.entries(classes, knows, to_fit, few)
    entries += constant_entries(crops)
    alone = bare(mappings[0], mappers[0], crops)
    works = list(dict.fromkeys([alone, *(entry.work for entry in entries if entry.seconds is None)]))
    times = dict(zip(works, milliseconds(works, len(crops)), strict=True))
    everywhere = reduce(np.intersect1d, [entry.chosen for entry in entries])
    show = crops.drawn[np.isin(crops.drawn, everywhere)][:SHOWN]
    lines = []
    for entry in entries:
        parts = np.array_split(entry.chosen, -(-len(entry.chosen) // entry.batch))
        found = np.concatenate([entry.masks(part) for part in reporter.track(parts, entry.name)])
        took = times[entry.work] if entry.seconds is None else 1000 * entry.seconds(entry.chosen)
        lines.append(measure(entry, found, crops, took, show))
    return Table1(lines, len(mappings), times[alone], crops, show.tolist())


def choose_baselines(
    only: Sequence[str], to_learn: PhotoSet | None, photos: PhotoSet | None, to_fit: npt.NDArray[np.bool_],
    reporter: Reporter,
) -> list[Baseline]:  # fmt: skip
    """The baselines asked for, which must be possible; or all, but those for which something is missing; it is named.

    to_learn: photos to learn from. photos: those to measure on, if the classifier knows their classes. to_fit (N,):
    those of them whose boxes may be shown. All stand as in the paper's table, newer ones after those, and last what
    learns.
    """
    known = [find_baseline(name) for name in only] or BASELINES.values()
    in_order = sorted(known, key=lambda b: (b.learn is not None, b.paper_le is None, -(b.paper_le or 0)))
    if to_learn is not None and photos is not None and list(to_learn.classes) != list(photos.classes):
        raise UserError("The photos to train on are of other classes than those to measure on.")
    chosen = list({baseline.name: baseline for baseline in (known if only else in_order)}.values())
    missing = {}
    for baseline in chosen:
        if baseline.extra is not None and find_spec(baseline.extra) is None:
            missing[baseline.name] = install_hint(baseline.extra)
        elif baseline.told == "boxes":
            if to_fit.all() or not to_fit.any():
                missing[baseline.name] = "more photos"
        elif baseline.learn is not None and photos is None:
            missing[baseline.name] = "a --classifier of the photos' classes"
        elif baseline.learn is not None and to_learn is None:
            missing[baseline.name] = "--train PHOTOS of the same classes"
    if missing:
        told = ", ".join(f"{name} ({what})" for name, what in missing.items())
        if only:
            raise UserError(f"Not possible, for want of what is in brackets: {told}.")
        reporter.message(f"Left out, for want of what is in brackets: {told}.")
    return [baseline for baseline in chosen if baseline.name not in missing]


def milliseconds(works: Sequence[Work], photos: int) -> list[float]:
    """For a photo, the median over rounds in which each has its turn; a work is given the numbers of the photos.

    A first turn with one photo warms it up, a second tells how many its patience allows, one at least.

    >>> sleeping, idle = milliseconds([lambda chosen: time.sleep(0.001 * len(chosen)), len], photos=3)
    >>> sleeping > idle
    True
    """
    _, once = ([_seconds(work, 1) for work in works] for _ in range(2))
    counts = [max(1, min(BATCH, photos, int(PATIENCE / ROUNDS / max(seconds, 1e-6)))) for seconds in once]
    turns = [[_seconds(*pair) for pair in zip(works, counts, strict=True)] for _ in range(ROUNDS)]
    return [1000 * float(median / count) for median, count in zip(np.median(turns, axis=0), counts, strict=True)]


def _seconds(work: Work, count: int) -> float:
    """How long it works on each of the first `count` photos, in all; after a rest."""
    time.sleep(REST)
    began = time.perf_counter()
    work(np.arange(count))
    return time.perf_counter() - began


def begin(out: Path, classifier: Classifier, crops: Crops) -> Study:
    """The folder of the study: maps are kept in it for one classifier and one set of pictures; others are refused."""
    old, kept = out / "setting.json", out / "options.json"
    if old.exists() and not kept.exists():  # as 0.1.0 had it
        before = read_options(old, DAMAGED)
        write_whole(
            kept, json.dumps({key: value if key == "size" else str(value)[:8] for key, value in before.items()})
        )
    pictures = hashlib.sha256("\n".join(crops.names).encode() + crops.pictures.tobytes()).hexdigest()
    return Study(out, {"size": crops.size, "photos": pictures[:8], "classifier": fingerprint(classifier)[:8]})


def measure(entry: Entry, masks: Floats, crops: Crops, took: float, show: Indices) -> Line:
    """A row: all that `measure_masks` tells, LE at the row's own alpha, and by its authors' rule."""
    mapped = crops.mapped(entry.chosen, masks, entry.sees)
    row = measure_masks(entry.name, mapped)
    own, alphas = own_alpha_errors(mapped)
    errors = {ALPHA_ONE: row.values["LE"], OWN_ALPHA: own}
    if entry.rule is not None:
        errors[OWN_RULE] = entry.rule.errors(mapped, crops.pictures[entry.chosen])
    numbers = row.numbers | {f"LE, {way}": mean_of(values) for way, values in errors.items()}
    return Line(entry, numbers, errors, alphas, took, masks[np.searchsorted(entry.chosen, show)])


def difference(ours: Line, theirs: Line) -> Number:
    """LE of a mapping at alpha 1 minus that of a row in its strongest way, on the photos of both: below 0, better."""
    _, mine, yours = np.intersect1d(ours.entry.chosen, theirs.entry.chosen, return_indices=True)
    return apart(ours.errors[ALPHA_ONE][mine], theirs.errors[theirs.strongest][yours])
