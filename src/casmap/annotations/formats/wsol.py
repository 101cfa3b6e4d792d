"""wsolevaluation: the text files of Choe et al.'s evaluation, with photos, classes, sizes, and boxes or masks."""

import os
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import collect_objects, object_from_box, open_mask
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
from casmap.errors import UserError, option
from casmap.io.atomic import write_whole
from casmap.io.names import read_name
from casmap.io.reading import MAX_ANNOTATIONS, is_inside, read_text, reading, refuse_link

FILE = "localization.txt"
MASK_FIELDS, BOX_FIELDS = 3, 5


def recognises(path: Path) -> bool:
    """Return whether a path is localization.txt or its folder."""
    return path.name == FILE if path.is_file() else any((path / file).is_file() for file in (FILE, "image_ids.txt"))


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read a folder with localization.txt and optionally image_ids.txt, class_labels.txt and image_sizes.txt.

    localization.txt has a line "id,x0,y0,x1,y1" for each box, in pixels of the size in image_sizes.txt, or a line
    "id,mask,ignored" for each mask, with files relative to the photos' root or to localization.txt. An id is a photo's
    path relative to the root.
    """
    folder = path.parent if path.is_file() else path
    if not (folder / FILE).is_file():
        raise UserError(f"There is no file {folder / FILE}.")
    if folder == path:  # a file that is named itself may be a link
        refuse_link(folder / FILE, folder)
    for file in ("class_labels.txt", "image_sizes.txt", "image_ids.txt"):
        refuse_link(folder / file, folder)
    problems: list[Problem] = []
    lines = {name: _lines(folder / f"{name}.txt") for name in ("class_labels", "image_sizes", "localization")}
    ids = [row[0] for row in _lines(folder / "image_ids.txt")]
    used = dict.fromkeys([*ids, *(row[0] for rows in lines.values() for row in rows)])
    found = {photo_id: names.find(photo_id) for photo_id in used}
    problems += [Problem(Kind.NO_PHOTO, photo_id) for photo_id, name in found.items() if name is None]
    labels = _labels(_numbers(lines["class_labels"], 1, "class_labels.txt", problems), found)
    given = _numbers(lines["image_sizes"], 2, "image_sizes.txt", problems)
    sizes = {found[photo_id]: (width, height) for photo_id, (width, height) in given if width and height}
    objects: dict[str, list[AnnotatedObject]] = defaultdict(list)
    masks: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for photo_id, *values in lines["localization"]:
        if (name := found[photo_id]) is None:
            continue
        if len(values) == MASK_FIELDS - 1:
            masks[name].append((values[0], values[1]))
        elif len(values) == BOX_FIELDS - 1:
            made = collect_objects(photo_id, [partial(object_from_box, "", values)])
            objects[name] += made.objects
            problems += made.problems
        else:
            problems.append(Problem(Kind.MALFORMED, f"{photo_id}: a line of {FILE} has neither a box nor a mask"))

    def of(name: str) -> PhotoRecord:
        if name not in objects and name not in masks:
            return NO_RECORD
        mask = partial(_mask, (root, folder), masks[name]) if name in masks else None
        return PhotoRecord(objects.get(name, ()), sizes.get(name), scaled=True, mask=mask)

    kind = ("masks" if masks and not objects else "boxes") + " from the text files of wsolevaluation"
    listed = list(dict.fromkeys(name for one in ids if (name := found[one]) is not None)) if ids else None
    return Annotations(kind, of, labels, listed, problems)


def _lines(path: Path) -> list[list[str]]:
    """Return the fields of each line; an empty list if there is no such file."""
    with reading(path, f"{path} is not a text file in UTF-8."):
        text = read_text(path, MAX_ANNOTATIONS) if path.exists() else ""
    return [[part.strip() for part in line.split(",")] for line in text.splitlines() if line.strip()]


def _numbers(rows: list[list[str]], count: int, file: str, problems: list[Problem]) -> list[tuple[str, list[int]]]:
    """Parse lines of an id and whole numbers; add a problem for each other line."""
    good = []
    for photo_id, *values in rows:
        if len(values) == count and all(value.isdecimal() and len(value) < 10 for value in values):
            good.append((photo_id, [int(value) for value in values]))
        else:
            text = f"{photo_id}: a line of {file} is not an id and {count} number(s)"
            problems.append(Problem(Kind.MALFORMED, text))
    return good


def _labels(numbers: list[tuple[str, list[int]]], found: dict[str, str | None]) -> dict[str, str]:
    """Return the class of each photo: its folder's name if folders and numbers match one to one, else the number."""
    pairs = {(_folder(photo_id), number) for photo_id, (number,) in numbers}
    folders = [folder for folder, _ in pairs]
    one_to_one = "" not in folders and len(pairs) == len(set(folders)) == len({number for _, number in pairs})
    labels = ((found[one], _folder(one) if one_to_one else str(number)) for one, (number,) in numbers)
    return {name: label for name, label in labels if name is not None}


def _folder(photo_id: str) -> str:
    return Path(read_name(photo_id)).parent.name


def _mask(
    roots: tuple[Path, Path], files: list[tuple[str, str]], objects: Sequence[AnnotatedObject], size: Size
) -> Mask:
    """Return the union of masks (H, W); ignored pixels outside all masks become 128, not counted."""
    mask = np.zeros((size[1], size[0]), np.uint8)
    for ignored in dict.fromkeys(ignored for _, ignored in files if ignored):
        mask[_open_resized(roots, ignored, size)] = 128
    for path, _ in files:
        mask[_open_resized(roots, path, size)] = 255
    return mask


def _open_resized(roots: tuple[Path, Path], path: str, size: Size) -> npt.NDArray[np.bool_]:
    """Return the pixels that are not black, resized to the photo's size as wsolevaluation does: OpenImages needs it."""
    # os.path: a Path raises OSError if its name is too long
    file = next((root / path for root in roots if os.path.isfile(root / path)), roots[0] / path)
    for root in roots:
        if is_inside(file, root):
            return np.asarray(cv2.resize(open_mask(file, root), size, interpolation=cv2.INTER_NEAREST) > 0)
    raise Skipped(Kind.MASK_SKIPPED, f"the mask {path} is outside the given folders")


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write the four text files; the class of a photo is that of its first object."""
    for photo in photos:
        if "," in photo.name or photo.name.splitlines() != [photo.name.strip()]:
            raise UserError(
                f"The text files of wsolevaluation cannot represent the name {photo.name!r}: choose another "
                f"{option('format')}."
            )
    files: dict[str, list[list[Any]]] = {
        "image_ids.txt": [[photo.name] for photo in photos],
        "class_labels.txt": [[p.name, labels.index(p.objects[0].label)] for p in photos if p.objects],
        "image_sizes.txt": [[photo.name, photo.width, photo.height] for photo in photos],
        FILE: [[photo.name, *one.box] for photo in photos for one in photo.objects],
    }
    for file, rows in files.items():
        text = "".join(f"{','.join(map(str, row))}\n" for row in rows)
        write_whole(out / file, text)
    return out / FILE


FORMATS.register("wsol")(Format(recognises, read, write))
