"""Table 1 on your photos: mappings beside every rival, on the same photos, the same classifier, the same protocol."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from casmap.baselines.rivals import RIVALS, Lesson, Rival
from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import Floats, Number, own_alpha_errors
from casmap.evaluation.evaluate import measure as evaluate
from casmap.evaluation.intervals import bootstrap_interval, paired_interval
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.inference.mapper import SaliencyMapper, names_of
from casmap.io.atomic import write_whole
from casmap.models.classifier import Classifier
from casmap.models.files import save_classifier
from casmap.paper.crops import Crops, Indices, read_crops
from casmap.paper.entrants import Entrant, bare, constants_enter, mapping_enters, see
from casmap.paper.fallback import explainer_of
from casmap.paper.maps import Maps
from casmap.paper.timing import milliseconds
from casmap.tools.classifiers import fingerprint, open_classifier

SHOWN = 7  # photos on the page
ALPHA_ONE, OWN_ALPHA, OWN_RULE = "alpha 1", "own alpha", "authors' rule"


@dataclass(frozen=True)
class Line:
    """One row of the table. errors: LE photo by photo, for each way of making a box of a map."""

    name: str
    method: str
    paper: str
    told: str
    chosen: Indices = field(repr=False)
    numbers: dict[str, Number]
    errors: dict[str, Floats] = field(repr=False)
    alphas: tuple[float, float]
    rule: str | None
    milliseconds: float
    shown: Floats = field(repr=False)  # masks (n, S, S) for the page

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
    shown: list[int]  # numbers of the photos on the page

    @property
    def ranked(self) -> list[Line]:
        """The rows, fewest errors at alpha 1 first."""
        return sorted(self.lines, key=lambda line: float(line.errors[ALPHA_ONE].mean()))


def run_table1(
    data: str,
    mappings: list[Path],
    classifier: str,
    out: Path,
    boxes: Path | None = None,
    masks: Path | None = None,
    split: str | None = None,
    size: int = 224,
    unseen: bool = False,
    train: str | None = None,
    only: list[str] | None = None,
    few: int = 100,
    console: Console | None = None,
) -> tuple[Table1, Crops]:
    """Measure mappings and rivals; what is made is kept in `out`, so that a second start goes on.

    unseen: the photos' classes may be new to the classifier; then rivals have the predicted class only.
    train: photos with classes, for the rivals that learn from them. only: some rivals by name. few: photos
    for those that take seconds for each.
    """
    console = console or Console(quiet=True)
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, split=split)
    f, knows = open_classifier(classifier, photos)
    if not knows and not unseen:
        raise UserError(
            f"The classifier {classifier} does not know exactly the {len(photos.classes)} classes of the photos: "
            "name one trained on them with --classifier, or let it explain the class that it sees with --unseen."
        )
    lessons = None if train is None else open_photos(train)
    mappers = [SaliencyMapper.load(path) for path in mappings]
    crops = read_crops(photos, size)
    to_fit = np.array([is_tuning(name, 0.5) for name in crops.names])
    rivals = choose_rivals(only, lessons, photos if knows else None, to_fit, console)
    file = out / "classifier.safetensors"
    same_setting(out, f, crops)
    if knows:
        save_classifier(file, f, list(photos.classes), {"origin": "What the rivals explain."})
    seen = see(f, crops.pictures)
    boxes_of = largest_boxes(crops)[to_fit]
    lesson = Lesson(f, file, lessons, crops.pictures[to_fit], boxes_of, learned_in(out, lessons), console)
    entrants = [mapping_enters(*named, photos, crops) for named in zip(names_of(mappings), mappers, strict=True)]
    for rival in rivals:
        explainer = explainer_of(rival, lesson, crops, seen, Maps(out / "maps"))
        classes = seen if explainer.classifier is f else see(explainer.classifier, crops.pictures)
        entrants += explainer.enters(classes, knows, to_fit, few)
    entrants += constants_enter(crops)
    alone = bare(mappings[0], mappers[0], crops)
    works = list(dict.fromkeys([alone, *(entrant.work for entrant in entrants if entrant.seconds is None)]))
    times = dict(zip(works, milliseconds(works, len(crops)), strict=True))
    everywhere = reduce(np.intersect1d, [entrant.chosen for entrant in entrants])
    show = crops.drawn[np.isin(crops.drawn, everywhere)][:SHOWN]
    lines = []
    with Progress(console=console, transient=True) as bar:
        for entrant in entrants:
            parts = np.array_split(entrant.chosen, -(-len(entrant.chosen) // entrant.batch))
            found = np.concatenate([entrant.masks(part) for part in bar.track(parts, description=entrant.name)])
            time = times[entrant.work] if entrant.seconds is None else 1000 * entrant.seconds(entrant.chosen)
            lines.append(measure(entrant, found, crops, time, show))
    return Table1(lines, len(mappings), times[alone], show.tolist()), crops


def choose_rivals(
    only: list[str] | None,
    lessons: PhotoSet | None,
    photos: PhotoSet | None,
    to_fit: npt.NDArray[np.bool_],
    console: Console,
) -> list[Rival]:
    """The rivals asked for, which must be possible; or all, but those for which something is missing, which are named.

    lessons: photos to learn from. photos: those to measure on, if the classifier knows their classes. to_fit (N,):
    those of them whose boxes may be shown.
    """
    by_name = {rival.name.lower(): rival for rival in RIVALS}
    for name in only or []:
        if name.lower() not in by_name:
            raise UserError(f"There is no rival {name!r}: {', '.join(rival.name for rival in RIVALS)}.")
    if lessons is not None and photos is not None and list(lessons.classes) != list(photos.classes):
        raise UserError("The photos to train on are of other classes than those to measure on.")
    chosen = [by_name[name] for name in dict.fromkeys(map(str.lower, only or by_name))]
    missing = {}
    for rival in chosen:
        if rival.extra is not None and find_spec(rival.extra) is None:
            missing[rival.name] = f"pip install 'casmap[{rival.extra}]'"
        elif rival.told == "boxes":
            if to_fit.all() or not to_fit.any():
                missing[rival.name] = "more photos"
        elif rival.learn is not None and photos is None:
            missing[rival.name] = "a --classifier of the photos' classes"
        elif rival.learn is not None and lessons is None:
            missing[rival.name] = "--train PHOTOS of the same classes"
    if missing:
        told = ", ".join(f"{name} ({what})" for name, what in missing.items())
        if only:
            raise UserError(f"Not possible, for want of what is in brackets: {told}.")
        console.print(f"Left out, for want of what is in brackets: {told}.", soft_wrap=True, markup=False)
    return [rival for rival in chosen if rival.name not in missing]


def learned_in(out: Path, lessons: PhotoSet | None) -> Path:
    """The folder for what is learned from photos: another one for others."""
    if lessons is None:
        return out
    content = json.dumps([list(lessons.classes), list(lessons.names), lessons.labels.tolist()])
    return out / f"learned-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def same_setting(out: Path, classifier: Classifier, crops: Crops) -> None:
    """Maps are kept in `out` for one classifier and one set of pictures: refuse others."""
    setting = {
        "classifier": fingerprint(classifier),
        "photos": hashlib.sha256("\n".join(crops.names).encode() + crops.pictures.tobytes()).hexdigest(),
        "size": crops.size,
    }
    kept = out / "setting.json"
    if kept.exists():
        before = json.loads(kept.read_text())
        if differs := [key for key in ("size", "photos", "classifier") if before.get(key) != setting[key]]:
            raise UserError(f"{out} holds maps of another {differs[0]}: choose another --out.")
    write_whole(kept, json.dumps(setting, indent=2) + "\n")


def largest_boxes(crops: Crops) -> npt.NDArray[np.float64]:
    """The largest true box (N, 4) of each photo."""
    sizes = [np.prod(truth.boxes[:, 2:] - truth.boxes[:, :2], axis=1) for truth in crops.truths]
    return np.stack([truth.boxes[size.argmax()] for truth, size in zip(crops.truths, sizes, strict=True)])


def measure(entrant: Entrant, masks: Floats, crops: Crops, time: float, show: Indices) -> Line:
    """A row: all that `evaluate` measures, LE at the row's own alpha, and by its authors' rule."""
    mapped = crops.mapped(entrant.chosen, masks, entrant.sees)
    row = evaluate(entrant.name, mapped)
    own, alphas = own_alpha_errors(mapped)
    errors = {ALPHA_ONE: row.values["LE"], OWN_ALPHA: own}
    if entrant.rule is not None:
        errors[OWN_RULE] = entrant.rule.errors(mapped, crops.pictures[entrant.chosen])
    numbers = row.numbers | {
        f"LE, {way}": Number(float(values.mean()), *bootstrap_interval(values)) for way, values in errors.items()
    }
    return Line(
        entrant.name, entrant.method, entrant.paper, entrant.told, entrant.chosen, numbers, errors, alphas,
        None if entrant.rule is None else entrant.rule.words, time,
        masks[np.searchsorted(entrant.chosen, show)],
    )  # fmt: skip


def difference(ours: Line, theirs: Line) -> Number:
    """LE of a mapping at alpha 1 minus that of a rival in its strongest way, on the photos of both: below 0, better."""
    _, mine, yours = np.intersect1d(ours.chosen, theirs.chosen, return_indices=True)
    a, b = ours.errors[ALPHA_ONE][mine], theirs.errors[theirs.strongest][yours]
    return Number(float((a - b).mean()), *paired_interval(a, b))


def verdict(apart: Number) -> str:
    """A difference in a word.

    >>> verdict(Number(-0.1, -0.2, -0.05)), verdict(Number(0.0, -0.1, 0.1)), verdict(Number(0.1, 0.05, 0.2))
    ('worse', 'tie', 'better')
    """
    return "worse" if apart.high < 0 else "better" if apart.low > 0 else "tie"
