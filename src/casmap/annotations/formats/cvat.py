"""CVAT: one XML file for all photos, in the format "CVAT for images 1.1"."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import object_from_box, object_from_mask, object_from_polygon, record_from_regions
from casmap.annotations.types import (
    NO_RECORD,
    AnnotatedObject,
    Annotations,
    Kind,
    Names,
    PhotoRecord,
    Problem,
    Size,
    Skipped,
)
from casmap.annotations.xml_files import xml_root, xml_size, xml_text
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.size_limits import MAX_PIXELS

FILE = "annotations.xml"
MAX_BYTES = 500 * 2**20  # of the file for all photos
EDGES = ("xtl", "ytl", "xbr", "ybr")
EDITED = ("manual", "semi-auto")  # sources of shapes that a person drew or changed; casmap writes auto


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read boxes, polygons and masks."""
    try:
        tree = xml_root(path, MAX_BYTES)
    except Skipped as error:
        raise UserError(f"{path} cannot be read: {error.reason}.") from error
    problems: list[Problem] = []
    known: dict[str, PhotoRecord] = {}
    for image in tree.findall("image"):
        if (name := names.find(given := image.get("name", ""))) is None:
            problems.append(Problem(Kind.NO_PHOTO, given))
            continue
        size = xml_size(image.get("width", ""), image.get("height", ""))
        parsers = [partial(_parse_object, item, size) for item in image if item.tag in ("box", "polygon", "mask")]
        known[name] = record_from_regions(name, parsers, size)
    return Annotations("boxes and outlines from CVAT", lambda photo: known.get(photo, NO_RECORD), problems=problems)


def _parse_object(item: ElementTree.Element, size: Size | None) -> AnnotatedObject:
    label = item.get("label", "")
    if item.tag == "mask":
        return _parse_mask(label, item, size)
    edited = item.get("source") in EDITED
    if item.tag == "box":
        return object_from_box(label, [item.get(edge) for edge in EDGES], edited=edited)
    pairs = [point.split(",") for point in item.get("points", "").split(";")]
    return object_from_polygon(label, [(float(x), float(y)) for x, y in pairs], edited=edited)


def _parse_mask(label: str, item: ElementTree.Element, size: Size | None) -> AnnotatedObject:
    """Make an object from run lengths: background and object in turn, row by row, in a part of the photo."""
    left, top, width, height = (int(item.get(name, "")) for name in ("left", "top", "width", "height"))
    runs = [int(run) for run in item.get("rle", "").split(",")]
    across, down = size or (0, 0)
    inside = 0 <= left < left + width <= across and 0 <= top < top + height <= down
    # Python's sum is exact: one of 64 bits wraps around, and np.repeat then writes out of bounds.
    if not inside or across * down > MAX_PIXELS or min(runs) < 0 or sum(runs) != width * height:
        raise Skipped(Kind.MASK_SKIPPED, "its mask is invalid")
    mask = np.zeros((down, across), bool)
    mask[top : top + height, left : left + width] = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(
        height, width
    )
    return replace(object_from_mask(label, mask), edited=item.get("source") in EDITED)


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write annotations.xml, with a box and a polygon for each object."""
    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    known = ElementTree.SubElement(ElementTree.SubElement(ElementTree.SubElement(root, "meta"), "task"), "labels")
    for label in labels:
        item = ElementTree.SubElement(known, "label")
        ElementTree.SubElement(item, "name").text = label
        ElementTree.SubElement(item, "attributes")
    for number, photo in enumerate(photos):
        size = {"id": str(number), "name": photo.name, "width": str(photo.width), "height": str(photo.height)}
        image = ElementTree.SubElement(root, "image", size)
        for one in photo.objects:
            shared = {"label": one.label, "source": "auto", "occluded": "0", "z_order": "0"}
            ElementTree.SubElement(image, "box", shared | dict(zip(EDGES, map(str, one.box), strict=True)))
            points = ";".join(f"{x:.2f},{y:.2f}" for x, y in one.polygon)
            ElementTree.SubElement(image, "polygon", shared | {"points": points})
    write_whole(out / FILE, xml_text(root))
    return out / FILE


FORMATS.register("cvat")(Format(lambda path: path.suffix.lower() == ".xml" and path.is_file(), read, write))
