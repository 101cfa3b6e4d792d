"""Label Studio: write tasks with predictions and the labelling interface; read exported annotations."""

import json
import os
import posixpath
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree

from casmap.annotations.brush import decode_brush, encode_brush
from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled, Object
from casmap.annotations.regions import object_from_box, object_from_mask, object_from_polygon, record_from_regions
from casmap.annotations.types import NO_RECORD, AnnotatedObject, Annotations, Kind, Names, PhotoRecord, Problem, Skipped
from casmap.annotations.xml_files import xml_text
from casmap.io.atomic import write_whole
from casmap.io.names import read_name
from casmap.io.reading import MAX_ANNOTATIONS, read_text, reading
from casmap.io.size_limits import MAX_PIXELS
from casmap.version import __version__

TASKS, CONFIG = "tasks.json", "config.xml"
LOCAL_FILES = "/data/local-files/?d="  # followed by a path below Label Studio's document root
EDITED = ("manual", "prediction-changed")  # origins of regions that a person drew or changed
KINDS = ("rectanglelabels", "polygonlabels", "brushlabels")  # types of regions, also those of their tags


def recognises(path: Path) -> bool:
    """Return whether a path is a JSON file that contains a list; COCO's contains an object."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return file.read(64).lstrip().startswith("[")


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read exported tasks (JSON): the latest annotation of each task.

    A file in which no task has an annotation, such as one that casmap wrote, gives the predictions. In an export with
    annotations, tasks that nobody annotated are not read: their predictions are not ground truth.
    """
    with reading(path, f"{path} is not valid JSON."):
        tasks = json.loads(read_text(path, MAX_ANNOTATIONS))
    problems: list[Problem] = []
    known: dict[str, PhotoRecord] = {}
    annotated = any(_annotations(task) for task in tasks)
    for number, task in enumerate(tasks):
        try:
            data = task["data"]  # the photo's address is in `image`, or in the first text
            address = data.get("image") or next((text for text in data.values() if isinstance(text, str)), None)
            if not isinstance(address, str):
                raise TypeError("no address")
            done = _annotations(task) or ([] if annotated else task.get("predictions") or [{"result": []}])
            if not done:
                continue
            chosen = done[-1]
            regions = [region for region in chosen["result"] if region.get("type") in KINDS]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            problems.append(Problem(Kind.MALFORMED, f"{path.name}, task {number}: not a task of Label Studio"))
            continue
        if (name := _find(address, names)) is None:
            problems.append(Problem(Kind.NO_PHOTO, address))
            continue
        sides = ((region.get("original_width"), region.get("original_height")) for region in regions)
        size = next((pair for pair in sides if all(type(side) is int for side in pair)), None)
        known[name] = record_from_regions(name, [partial(_parse_object, region) for region in regions], size)
    kind = "boxes and outlines from Label Studio"
    return Annotations(kind, lambda photo: known.get(photo, NO_RECORD), problems=problems)


def _annotations(task: Any) -> list[Any]:
    """The annotations that people submitted for a task."""
    found = task.get("annotations") if isinstance(task, dict) else None
    found = found if isinstance(found, list) else []
    return [one for one in found if isinstance(one, dict) and not one.get("was_cancelled")]


def _find(address: str, names: Names) -> str | None:
    """Return the photo of an address: a local file, an upload (eight letters and - before its name), or a URL."""
    try:
        parts = urlsplit(address)
    except ValueError:  # http://[ has half of an IPv6 address
        return None
    path = parse_qs(parts.query, errors="surrogateescape").get("d", [""])[0]
    path = path or unquote(parts.path, errors="surrogateescape")
    last = path.rpartition("/")[2]
    found = names.find(path.lstrip("/")) or names.find(last)
    if found is None and "/" in path:  # the class folder and the file name, whatever precedes them
        found = names.find(posixpath.join(*path.split("/")[-2:]))
    uploaded = last.partition("-")[2]
    return found or (names.find(uploaded) if uploaded else None)


def _parse_object(region: dict[str, Any]) -> AnnotatedObject:
    """Make an object from a rectangle or a polygon, given in percent of the photo's size, or from a brush mask."""
    value, kind = region["value"], region["type"]
    size = region["original_width"], region["original_height"]
    across, down = size[0] / 100, size[1] / 100
    label, edited = str(value[kind][0]), region.get("origin") in EDITED
    if kind == "brushlabels":
        if not 0 < size[0] * size[1] <= MAX_PIXELS:
            raise Skipped(Kind.MASK_SKIPPED, "its mask is too large")
        return replace(object_from_mask(label, decode_brush(value["rle"], size)), edited=edited)
    if kind == "polygonlabels":
        points = [(float(x) * across, float(y) * down) for x, y in value["points"]]
        return object_from_polygon(label, points, edited=edited)
    if value.get("rotation"):
        raise Skipped(Kind.BOX_SKIPPED, "the rectangle is rotated")
    x, y = value["x"] * across, value["y"] * down
    edges = (x, y, x + value["width"] * across, y + value["height"] * down)
    return object_from_box(label, edges, edited=edited)


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write tasks.json and config.xml; an address is the prefix and the name relative to the folder of photos.

    Without a prefix, the address starts with the name of that folder: Label Studio's document root is its parent,
    because Label Studio refuses the document root itself as a storage.
    """
    prefix = options.prefix
    if prefix is None:
        prefix = LOCAL_FILES + (f"{quote(os.fsencode(options.folder))}/" if options.folder else "")
    tasks = []
    for photo in photos:
        prediction = {
            "model_version": f"casmap {__version__}",
            "score": round(max((one.score for one in photo.objects), default=0.0), 4),
            "result": [
                region(one, photo.width, photo.height, kind, name, "image", one.label, f"{name}-{number}")
                for number, one in enumerate(photo.objects)
                for name, kind in (("box", "rectanglelabels"), ("outline", "polygonlabels"))
            ],
        }
        tasks.append(
            {"data": {"image": f"{prefix}{quote(os.fsencode(read_name(photo.name)))}"}, "predictions": [prediction]}
        )
    write_whole(out / TASKS, json.dumps(tasks) + "\n")
    view = ElementTree.Element("View")  # the labelling interface
    ElementTree.SubElement(view, "Image", name="image", value="$image")
    for tag, name in (("RectangleLabels", "box"), ("PolygonLabels", "outline")):
        tool = ElementTree.SubElement(view, tag, name=name, toName="image")
        for label in labels:
            ElementTree.SubElement(tool, "Label", value=label)
    write_whole(out / CONFIG, xml_text(view))
    return out / TASKS


def region(
    one: Object, width: int, height: int, kind: str, name: str, to: str, label: str, identity: str
) -> dict[str, Any]:
    """Return an object of a photo (width, height) as a region of one of `KINDS`.

    name, to: of the tags of the labelling interface that the region belongs to. label: "" for none.

    >>> one = Object("", (1, 0, 3, 1), [(1.0, 0.0), (3.0, 0.0), (3.0, 1.0)], {}, 2, 0.9)
    >>> region(one, 4, 2, "rectanglelabels", "box", "image", "cat", "a")["value"]
    {'x': 25.0, 'y': 0.0, 'width': 50.0, 'height': 50.0, 'rotation': 0, 'rectanglelabels': ['cat']}
    """
    x0, y0, x1, y1 = one.box
    across, down = 100 / width, 100 / height
    value: dict[str, Any]
    if kind == "rectanglelabels":
        value = {
            "x": x0 * across,
            "y": y0 * down,
            "width": (x1 - x0) * across,
            "height": (y1 - y0) * down,
            "rotation": 0,
        }
    elif kind == "polygonlabels":
        value = {"points": [[x * across, y * down] for x, y in one.polygon], "closed": True}
    else:
        value = {"format": "rle", "rle": encode_brush(one.mask())}
    return {
        "id": identity, "type": kind, "from_name": name, "to_name": to,
        "value": {**value, kind: [label] if label else []},
        "original_width": width, "original_height": height, "image_rotation": 0, "score": round(one.score, 4),
    }  # fmt: skip


FORMATS.register("label-studio")(Format(recognises, read, write, ("prefix",)))
