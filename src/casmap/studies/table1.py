"""Table 1 on your photos: mappings beside methods that explain one classifier, same photos, same protocol."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from timm.data.imagenet_info import ImageNetInfo

from casmap.atomic import write_whole
from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import (
    Mapped,
    Number,
    ToldSystem,
    annotated,
    center_system,
    evaluate,
    map_with_classes,
    own_alpha_errors,
    untold,
    whole_system,
)
from casmap.evaluation.intervals import bootstrap_interval, paired_interval
from casmap.evaluation.report import COLUMNS, names_of, system_of, text_of
from casmap.mapper import SaliencyMapper
from casmap.model.classifier import Classifier
from casmap.model.files import load_classifier
from casmap.peers.cam import cam
from casmap.peers.grad_cam import grad_cam
from casmap.peers.peer import Explained, Peer
from casmap.training.first import check_weights

PEERS: dict[str, Peer] = {"CAM": cam, "Grad-CAM": grad_cam}
SHOWN = ("LE", "LE at own alpha", "OM", "F1", "PxAP", "mask IoU", "area")


@dataclass(frozen=True)
class Line:
    """One row of the table; `errors` and `own_errors` are LE photo by photo, at alpha 1 and at the row's own alpha."""

    name: str
    numbers: dict[str, Number]
    alphas: tuple[float, float]
    errors: npt.NDArray[np.floating]
    own_errors: npt.NDArray[np.floating]


def run_table1(
    data: str,
    mappings: list[Path],
    classifier: str,
    boxes: Path | None = None,
    masks: Path | None = None,
    split: str | None = None,
    size: int = 224,
    unseen: bool = False,
    out: Path | None = None,
    console: Console | None = None,
) -> list[Line]:
    """Measure the mappings, each peer with the true and with the predicted class, centre box and whole picture.

    unseen: the photos' classes may be new to the classifier; then peers have the predicted class only.
    """
    console = console or Console(quiet=True)
    photos = open_photos(data, held_out=True, boxes=boxes, masks=masks, split=split)
    f, knows = open_classifier(classifier, photos)
    if not knows and not unseen:
        raise UserError(
            f"The classifier {classifier} does not know exactly the {len(photos.classes)} classes of the photos: "
            "name one trained on them with --classifier, or let it explain the class that it sees with --unseen."
        )
    systems: list[tuple[str, ToldSystem]] = [
        (name, untold(system_of(SaliencyMapper.load(path), photos)))
        for name, path in zip(names_of(mappings), mappings, strict=True)
    ]
    for name, peer in PEERS.items():
        if knows:
            systems.append((f"{name}, true class", Explained(f, peer, asks_class=True)))
        systems.append((f"{name}, predicted class", Explained(f, peer, asks_class=False, knows=knows)))
    systems += [("centre box", untold(center_system)), ("whole picture", untold(whole_system))]
    lines = []
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("table 1", total=len(systems) * len(annotated(photos)))
        for name, told in systems:
            mapped = map_with_classes(told, photos, size, "crop", lambda: bar.advance(task))
            lines.append(measure(name, mapped))
    print_lines(lines, len(mappings), console)
    if out:
        write_whole(out, to_json(lines, len(mappings)))
    return lines


def open_classifier(name: str, photos: PhotoSet) -> tuple[Classifier, bool]:
    """The classifier that the peers explain, and whether its classes are the photos'.

    A file that casmap wrote, or a backbone with ImageNet weights by name.
    """
    if name.endswith(".safetensors"):
        classifier, about = load_classifier(name)
        classes = list(about["classes"])
    else:
        check_weights(name)
        classifier = Classifier(name, 1000, pretrained=True)
        classes = list(ImageNetInfo("imagenet-1k").label_names())  # type: ignore[no-untyped-call]
    return classifier, classes == list(photos.classes)


def measure(name: str, mapped: Mapped) -> Line:
    """A row: all that `evaluate` measures, and LE at the row's own alpha."""
    row = evaluate(name, mapped)
    own, alphas = own_alpha_errors(mapped)
    numbers = row.numbers | {"LE at own alpha": Number(float(own.mean()), *bootstrap_interval(own))}
    return Line(name, numbers, alphas, row.values["LE"], own)


def differences(lines: list[Line], mappings: int) -> dict[str, dict[str, Number]]:
    """LE of each mapping at alpha 1 minus that of each rival, the stronger of its two: below 0 it is better."""
    found = {}
    for ours in lines[:mappings]:
        found[ours.name] = {
            theirs.name: Number(float((ours.errors - rival).mean()), *paired_interval(ours.errors, rival))
            for theirs in lines
            if theirs is not ours
            for rival in [min((theirs.errors, theirs.own_errors), key=lambda errors: float(errors.mean()))]
        }
    return found


def print_lines(lines: list[Line], mappings: int, console: Console) -> None:
    """The table, and the paired differences."""
    titles = COLUMNS | {"LE at own alpha": ("LE at its own alpha ↓", 100)}
    shown = [key for key in SHOWN if any(key in line.numbers for line in lines)]
    table = Table(title=f"{len(lines[0].errors)} photos, central crop; 95 % bootstrap intervals", show_lines=True)
    table.add_column("")
    for key in shown:
        table.add_column(titles[key][0], justify="right")
    for line in lines:
        table.add_row(line.name, *(text_of(line.numbers.get(key), titles[key][1]) for key in shown))
    console.print(table)
    console.print(
        "Own alpha: the best of 0.1, 0.2, ... 3.0 on one half of the photos, used on the other.", soft_wrap=True
    )
    for ours, rivals in differences(lines, mappings).items():
        for theirs, number in rivals.items():
            value, low, high = (100 * x for x in (number.value, number.low, number.high))
            console.print(
                f"{ours} at alpha 1 - {theirs} at its stronger alpha: LE {value:+.1f} [{low:+.1f}, {high:+.1f}]",
                soft_wrap=True,
            )


def to_json(lines: list[Line], mappings: int) -> str:
    """All numbers with their intervals."""
    content = {
        line.name: {"own alphas": line.alphas, **{key: asdict(number) for key, number in line.numbers.items()}}
        for line in lines
    }
    paired = {
        ours: {theirs: asdict(number) for theirs, number in rivals.items()}
        for ours, rivals in differences(lines, mappings).items()
    }
    return json.dumps({"rows": content, "paired LE differences": paired}, indent=2) + "\n"
