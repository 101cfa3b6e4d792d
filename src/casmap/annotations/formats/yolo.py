"""YOLO, as Ultralytics reads it: a text file for each photo, with boxes or outlines as shares of it, and data.yaml."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled, Object, place
from casmap.annotations.regions import collect_objects, four_numbers, mask_of, object_from_box, object_from_polygon
from casmap.annotations.types import (
    NO_RECORD,
    AnnotatedObject,
    Annotations,
    Kind,
    Mask,
    Names,
    PhotoRecord,
    Problem,
    Size,
    Skipped,
)
from casmap.errors import UserError
from casmap.io.atomic import write_whole

FILE = "data.yaml"
WHOLE: Size = (1, 1)  # of a photo, in shares


def recognises(path: Path) -> bool:
    """data.yaml beside a folder of labels, or the folder of both."""
    folder = path.parent if path.name == FILE else path
    return (folder / "labels").is_dir() and (folder / FILE).is_file()


def read(path: Path, root: Path, names: Names) -> Annotations:
    """A folder with labels, named as the photos, and data.yaml; a line with more than a box is an outline."""
    folder = path.parent if path.is_file() else path
    labels = _labels(folder / FILE)
    files, problems = names.files(folder / "labels", ".txt")

    def of(name: str) -> PhotoRecord:
        if name not in files:
            return NO_RECORD
        try:
            lines = files[name].read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return PhotoRecord(problems=[Problem(Kind.MALFORMED, f"{files[name].name}: it cannot be opened")])
        parsers = [partial(_parse_object, line, labels) for line in lines if line.strip()]
        return collect_objects(name, parsers, size=WHOLE, scaled=True, mask=_mask)

    return Annotations("boxes or outlines from YOLO's text files", of, problems=problems)


def _labels(path: Path) -> dict[str, str]:
    """The classes of data.yaml, a list or by number, as the lines of labels name them."""
    try:
        import yaml
    except ImportError as error:
        raise UserError(f"Reading {path} needs PyYAML: pip install pyyaml.") from error
    try:
        names = yaml.safe_load(path.read_text(encoding="utf-8-sig"))["names"] or {}
        pairs = enumerate(names) if isinstance(names, list) else names.items()
        return {str(number): str(label) for number, label in pairs}
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
        raise UserError(f"{path} must be a YAML file with the names of the classes under names.") from error


def _parse_object(line: str, labels: dict[str, str]) -> AnnotatedObject:
    """An object in shares of its photo; a number too many is how sure a network is."""
    number, *texts = line.split()
    if number not in labels:
        raise Skipped(Kind.MALFORMED, f"class {number} is not in {FILE}")
    values = [float(text) for text in texts[: len(texts) // 2 * 2]]
    if len(values) > 4:
        return object_from_polygon(labels[number], list(zip(values[::2], values[1::2], strict=True)))
    x, y, width, height = four_numbers(values)
    return object_from_box(labels[number], (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def _mask(objects: Sequence[AnnotatedObject], size: Size) -> Mask | None:
    """The outlines, drawn in a photo of this size: (H, W)."""
    shares = [(one, one.outline or []) for one in objects]
    pixels = [(one, [[n * size[i % 2] for i, n in enumerate(polygon)] for polygon in drawn]) for one, drawn in shares]
    return mask_of(size, (), [replace(one, outline=outline) for one, outline in pixels], size)


def write(
    photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions, outlines: bool = False
) -> Path:
    """Write images/, labels/ and data.yaml; the photos are linked where the disk allows it, else copied."""
    names = place(photos, out / "images")
    for photo in photos:
        lines = [_line(one, labels.index(one.label), photo, outlines) for one in photo.objects]
        write_whole(out / "labels" / f"{names[photo.file]}.txt", "".join(f"{text}\n" for text in lines))
    # JSON's strings are YAML's: no class's name can break the file.
    named = "".join(f"  {number}: {json.dumps(label)}\n" for number, label in enumerate(labels))
    write_whole(out / FILE, f"train: images\nval: images\nnames:\n{named}")
    return out / FILE


def _line(one: Object, number: int, photo: Labelled, outlines: bool) -> str:
    """The class, then centre and size of the box, or the points of the outline, from 0 to 1.

    >>> one = Object("cat", (10, 0, 30, 20), [(10, 0), (30, 0), (30, 20)], {}, 200, 1.0)
    >>> _line(one, 2, Labelled(Path("a.jpg"), "a.jpg", 100, 50, (one,)), outlines=False)
    '2 0.200000 0.200000 0.200000 0.400000'
    """
    x0, y0, x1, y1 = one.box
    box = ((x0 + x1) / 2 / photo.width, (y0 + y1) / 2 / photo.height, (x1 - x0) / photo.width, (y1 - y0) / photo.height)
    outline = [share for x, y in one.polygon for share in (x / photo.width, y / photo.height)]
    return " ".join([str(number), *(f"{share:.6f}" for share in (outline if outlines else box))])


FORMATS.register("yolo")(Format(recognises, read, write))
