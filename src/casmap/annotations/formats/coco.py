"""COCO: one JSON file with all photos, their boxes, and their masks as polygons or run lengths."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.formats import label_studio
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import collect_objects, four_numbers, mask_of, object_from_box
from casmap.annotations.types import NO_RECORD, AnnotatedObject, Annotations, Kind, Names, ObjectParser, Problem, Size
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.reading import MAX_ANNOTATIONS, read_text, reading
from casmap.io.size_limits import MAX_PIXELS

FILE = "annotations.json"


def recognises(path: Path) -> bool:
    """Return whether a path is a JSON file that does not contain a list, as Label Studio's do."""
    return path.suffix.lower() == ".json" and path.is_file() and not label_studio.recognises(path)


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read an instances file; masks are drawn on demand. Crowds are no objects, but masks mark them as not counted."""
    invalid = f"{path} must be a COCO file: JSON with lists of images, annotations and categories."
    with reading(path, invalid):
        content = json.loads(read_text(path, MAX_ANNOTATIONS))
        if not all(isinstance(content[name], list) for name in ("images", "annotations", "categories")):
            raise UserError(invalid)
    problems: list[Problem] = []
    categories: dict[Any, str] = {}
    for entry in content["categories"]:
        try:
            categories[entry["id"]] = str(entry["name"])
        except (KeyError, TypeError):
            problems.append(Problem(Kind.MALFORMED, f"{path.name}: a category without id or name"))
    photos, sizes = _photos(path, content["images"], names, problems)
    parsers: dict[str, list[ObjectParser]] = defaultdict(list)
    crowds: dict[str, list[AnnotatedObject]] = defaultdict(list)
    for number, entry in enumerate(content["annotations"]):
        try:
            if entry["image_id"] not in photos:
                problems.append(Problem(Kind.NO_PHOTO, f"{path.name}, annotation {number}: its image is not in images"))
                continue
            photo, category = photos[entry["image_id"]], categories[entry["category_id"]]
        except (KeyError, TypeError):
            text = f"{path.name}, annotation {number}: no image_id, or no known category_id"
            problems.append(Problem(Kind.MALFORMED, text))
            continue
        if photo is None:
            continue  # reported once, with the image
        if entry.get("iscrowd"):
            crowds[photo].append(AnnotatedObject(category, (0, 0, 0, 0), 0, outline=entry.get("segmentation")))
        else:
            parsers[photo].append(partial(_parse_object, category, entry))
    known = {
        photo: collect_objects(photo, parsers[photo], size=size, mask=size and partial(mask_of, size, crowds[photo]))
        for photo, size in sizes.items()
    }
    return Annotations("boxes and masks from a COCO file", lambda photo: known.get(photo, NO_RECORD), problems=problems)


def _photos(
    path: Path, entries: list[Any], names: Names, problems: list[Problem]
) -> tuple[dict[Any, str | None], dict[str, Size | None]]:
    """Return the photo of each image id, and the size given for each photo."""
    photos: dict[Any, str | None] = {}
    sizes: dict[str, Size | None] = {}
    for number, entry in enumerate(entries):
        try:
            name = photos[entry["id"]] = names.find(entry["file_name"])
            size = entry.get("width"), entry.get("height")
        except (KeyError, TypeError, AttributeError):
            problems.append(Problem(Kind.MALFORMED, f"{path.name}, image {number}: no id or no file_name"))
            continue
        if name is None:
            problems.append(Problem(Kind.NO_PHOTO, entry["file_name"]))
        else:
            whole = all(type(side) is int and side > 0 for side in size)
            sizes[name] = size if whole and size[0] * size[1] <= MAX_PIXELS else None
    return photos, sizes


def _parse_object(category: str, entry: dict[str, Any]) -> AnnotatedObject:
    """Make an object from an annotation that is not a crowd; its bbox is [x, y, width, height]."""
    x, y, width, height = four_numbers(entry.get("bbox"))
    one = object_from_box(category, (x, y, x + width, y + height), outline=entry.get("segmentation"))
    given = entry.get("area")  # of the outline: more exact than the area of the box
    return replace(one, area=float(given)) if isinstance(given, int | float) and 0 < given < MAX_PIXELS else one


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write annotations.json; `file_name` is relative to the folder of photos, with forward slashes."""
    numbers = {label: number for number, label in enumerate(labels, 1)}
    annotations: list[dict[str, Any]] = []
    for image, photo in enumerate(photos, 1):
        for one in photo.objects:
            x0, y0, x1, y1 = one.box
            annotations.append({
                "id": len(annotations) + 1, "image_id": image, "category_id": numbers[one.label],
                "bbox": [x0, y0, x1 - x0, y1 - y0], "area": one.area,
                "segmentation": one.rle if options.rle else [[number for point in one.polygon for number in point]],
                "iscrowd": 0, "score": round(one.score, 4),
            })  # fmt: skip
    images = [{"id": n, "file_name": p.name, "width": p.width, "height": p.height} for n, p in enumerate(photos, 1)]
    content = {
        "info": {"description": "Made by casmap, from class labels only."},
        "images": images,
        "categories": [{"id": number, "name": label, "supercategory": ""} for label, number in numbers.items()],
        "annotations": annotations,
    }
    write_whole(out / FILE, json.dumps(content) + "\n")
    return out / FILE


FORMATS.register("coco")(Format(recognises, read, write, ("rle",)))
