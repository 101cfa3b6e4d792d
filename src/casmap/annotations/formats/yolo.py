"""YOLO, as Ultralytics reads it: a text file of relative boxes or outlines for each photo, and data.yaml."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled, Object, copy_photos
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
from casmap.io.outputs import WRITTEN
from casmap.io.reading import MAX_YAML, parse_yaml, read_text, reading, refuse_link

FILE = "data.yaml"
MAX_BYTES = 10 * 2**20  # of the labels of one photo
MAX_OWN = 64 * 2**20  # of data.yaml as `write` makes it: more than 100,000 classes with names of 255 bytes
# A line of data.yaml as `write` makes it: the number of a class and its name, a JSON string.
OWN_CLASS = re.compile(r'  (0|[1-9][0-9]*): ("(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-f]{4})*")')
# What YAML cannot have in a string, or takes for a line break.
UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
WHOLE: Size = (1, 1)  # the size of a photo in relative coordinates


def recognises(path: Path) -> bool:
    """Return whether a path is data.yaml beside a folder labels, or the folder of both."""
    folder = path.parent if path.name == FILE else path
    return (folder / "labels").is_dir() and (folder / FILE).is_file()


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read data.yaml and all files below labels, of every split; a line with more numbers than a box is an outline."""
    folder = path.parent if path.is_file() else path
    if folder == path:  # a file that is named itself may be a link
        refuse_link(folder / FILE, folder)
    refuse_link(folder / "labels", folder)
    labels = _labels(folder / FILE)
    files, problems = names.files(folder / "labels", ".txt")

    def of(name: str) -> PhotoRecord:
        if name not in files:
            return NO_RECORD
        try:
            with reading(files[name]):
                lines = read_text(files[name], MAX_BYTES, errors="replace").splitlines()
        except UserError as error:
            return PhotoRecord(problems=[Problem(Kind.MALFORMED, str(error).rstrip("."))])
        parsers = [partial(_parse_object, line, labels) for line in lines if line.strip()]
        return collect_objects(name, parsers, size=WHOLE, scaled=True, mask=_mask)

    return Annotations("boxes or outlines from YOLO's text files", of, problems=problems)


def _labels(path: Path) -> dict[str, str]:
    """Return the classes in data.yaml, a list or a mapping, by their number as text."""
    wanted = f"{path} must be a YAML file with the names of the classes in names, without aliases."
    with reading(path, wanted):
        own = _own_labels(read_text(path, MAX_OWN))
    if own is not None:
        return own
    try:
        import yaml  # noqa: F401 (used by parse_yaml)
    except ImportError as error:
        raise UserError(f"Reading {path} needs PyYAML: pip install pyyaml.") from error
    with reading(path, wanted):
        names = parse_yaml(read_text(path, MAX_YAML))["names"] or {}
        pairs = enumerate(names) if isinstance(names, list) else names.items()
        return {str(number): str(label) for number, label in pairs}


def _own_labels(text: str) -> dict[str, str] | None:
    """Return the classes in a data.yaml of `write`; None if another program has written or changed it.

    A YAML file may have no more than about 10,000 classes, because parsing it is slow; these lines are not.

    >>> _own_labels('train: images\\nnames:\\n  0: "cat"\\n# written by casmap\\n'), _own_labels("names: [cat]")
    ({'0': 'cat'}, None)
    """
    *lines, end = text.partition("\nnames:\n")[2].removesuffix("\n").split("\n")
    found = [OWN_CLASS.fullmatch(line) for line in lines]
    if f"{end}\n".encode() != WRITTEN:
        return None
    return {one[1]: json.loads(one[2]) for one in found if one} if all(found) else None


def _parse_object(line: str, labels: dict[str, str]) -> AnnotatedObject:
    """Make an object in relative coordinates from a line; an extra number at the end is a confidence and is ignored."""
    number, *texts = line.split()
    if number not in labels:
        raise Skipped(Kind.MALFORMED, f"class {number} is not in {FILE}")
    values = [float(text) for text in texts[: len(texts) // 2 * 2]]
    if len(values) > 4:
        return object_from_polygon(labels[number], list(zip(values[::2], values[1::2], strict=True)))
    x, y, width, height = four_numbers(values)
    return object_from_box(labels[number], (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def _mask(objects: Sequence[AnnotatedObject], size: Size) -> Mask | None:
    """Draw the outlines in a photo of this size: (H, W)."""
    scaled = [
        replace(one, outline=[[n * size[i % 2] for i, n in enumerate(polygon)] for polygon in one.outline or []])
        for one in objects
    ]
    return mask_of(size, (), scaled, size)


def write(
    photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions, outlines: bool = False
) -> Path:
    """Write images/ (copies of the photos), labels/, data.yaml, and the splits train.txt and val.txt.

    Each photo is in one split only, chosen by a hash of its name, so it stays there when photos are added
    (except in sets so small that a split would be empty). Without
    photos for val, data.yaml has no `val`; Ultralytics requires one.
    """
    names = copy_photos(photos, out / "images")
    for photo in photos:
        lines = [_line(one, labels.index(one.label), photo, outlines) for one in photo.objects]
        stem, _ = names[photo.file]
        write_whole(out / "labels" / f"{stem}.txt", "".join(f"{text}\n" for text in lines))
    splits = "train: images\n# val: Ultralytics requires a folder or a list of other photos here\n"
    if val := _choose_val([photo.name for photo in photos], options.val):
        splits = "train: train.txt\nval: val.txt\n"
        for split, inside in (("train", False), ("val", True)):
            files = [photo.file for photo in photos if (photo.name in val) == inside]
            # Ultralytics replaces ./ by the folder of the list.
            write_whole(out / f"{split}.txt", "".join(f"./images/{names[file][1]}\n" for file in files))
    classes = "".join(f"  {number}: {_quoted(label)}\n" for number, label in enumerate(labels))
    write_whole(out / FILE, f"{splits}names:\n{classes}".encode() + WRITTEN)
    return out / FILE


def _quoted(label: str) -> str:
    """Return a class as a string of both JSON and YAML, in which a pair of \\u escapes would not be one character.

    >>> print(_quoted("a " + chr(0x1F600) + " " + chr(0x2028)))
    "a \U0001f600 \\u2028"
    """
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(label, ensure_ascii=False))


def _choose_val(names: Sequence[str], share: float) -> set[str]:
    """Choose about `share` of the photos by a hash of their names; both splits get a photo if there are two.

    >>> len(_choose_val([f"{n}.jpg" for n in range(1000)], 0.1)), _choose_val(["1.jpg"], 0.1)
    (91, set())
    """
    if share == 0 or len(names) < 2:
        return set()
    digests = {name: hashlib.sha256(name.encode(errors="surrogateescape")).digest() for name in names}
    ranked = sorted(names, key=lambda name: digests[name])
    count = sum(int.from_bytes(digests[name][:8]) < share * 2**64 for name in names)
    return set(ranked[: min(max(count, 1), len(names) - 1)])


def _line(one: Object, number: int, photo: Labelled, outlines: bool) -> str:
    """Return the number of the class, then centre and size of the box, or the points of the outline, in 0..1.

    >>> one = Object("cat", (10, 0, 30, 20), [(10, 0), (30, 0), (30, 20)], {}, 200, 1.0)
    >>> _line(one, 2, Labelled(Path("a.jpg"), "a.jpg", 100, 50, (one,)), outlines=False)
    '2 0.200000 0.200000 0.200000 0.400000'
    """
    x0, y0, x1, y1 = one.box
    box = ((x0 + x1) / 2 / photo.width, (y0 + y1) / 2 / photo.height, (x1 - x0) / photo.width, (y1 - y0) / photo.height)
    outline = [share for x, y in one.polygon for share in (x / photo.width, y / photo.height)]
    return " ".join([str(number), *(f"{share:.6f}" for share in (outline if outlines else box))])


FORMATS.register("yolo")(Format(recognises, read, write, ("val",)))
