"""Tiny ImageNet: text files with a line for each photo, its class and its box.

train/WNID/WNID_boxes.txt has lines "photo x0 y0 x1 y1", of photos in train/WNID/images; val/val_annotations.txt has
lines "photo WNID x0 y0 x1 y1", of photos in val/images, or sorted into val/WNID; tabs separate the fields. Boxes
include the pixel x1, y1.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from casmap.annotations.regions import collect_objects, four_numbers, object_from_box
from casmap.annotations.types import NO_RECORD, AnnotatedObject, Annotations, Kind, Names, ObjectParser, Problem
from casmap.io.reading import MAX_ANNOTATIONS, read_text, reading, refuse_link

BOXES, TABLE = "_boxes.txt", "val_annotations.txt"
Line = tuple[str, str, Sequence[str]]  # the photo's name, its class, the box


def read_train(root: Path, names: Names) -> Annotations:
    """Read the boxes of the photos in train/, whose classes are their folders."""
    problems: list[Problem] = []
    lines: list[Line] = []
    for path in sorted((root / "train").glob("*/*" + BOXES)):
        wnid = path.parent.name
        lines += [(f"{wnid}/images/{photo}", wnid, box) for photo, *box in _rows(path, root, 5, problems)]
    return _annotations(lines, names, problems)


def read_val(root: Path, names: Names) -> Annotations:
    """Read the classes and boxes of the photos in val/images/, or in class folders of val/."""
    problems: list[Problem] = []
    rows = _rows(root / "val" / TABLE, root, 6, problems)
    return _annotations([(names.find(photo) or photo, wnid, box) for photo, wnid, *box in rows], names, problems)


def _rows(path: Path, root: Path, fields: int, problems: list[Problem]) -> list[list[str]]:
    """The fields of each line; a problem for each line with more or fewer."""
    refuse_link(path, root)
    with reading(path, f"{path} is not a text file in UTF-8."):
        rows = [line.split("\t") for line in read_text(path, MAX_ANNOTATIONS).splitlines() if line.strip()]
    text = f"{path.name}: a line does not have {fields} fields"
    problems += [Problem(Kind.MALFORMED, text) for row in rows if len(row) != fields]
    return [row for row in rows if len(row) == fields]


def _annotations(lines: Iterable[Line], names: Names, problems: list[Problem]) -> Annotations:
    parsers: dict[str, list[ObjectParser]] = defaultdict(list)
    labels = {}
    for photo, wnid, box in lines:
        if photo in names:
            labels[photo] = wnid
            parsers[photo].append(partial(_object, wnid, box))
        else:
            problems.append(Problem(Kind.NO_PHOTO, photo))
    known = {photo: collect_objects(photo, found) for photo, found in parsers.items()}
    kind = "boxes from Tiny ImageNet's text files"
    return Annotations(kind, lambda name: known.get(name, NO_RECORD), labels, problems=problems)


def _object(wnid: str, box: Sequence[str]) -> AnnotatedObject:
    """The object of a line, whose box includes its last pixel."""
    x0, y0, x1, y1 = four_numbers(box)
    return object_from_box(wnid, (x0, y0, x1 + 1, y1 + 1))
