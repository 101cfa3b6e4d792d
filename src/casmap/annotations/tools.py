"""What annotation tools give back: Label Studio's JSON and CVAT's XML, boxes and outlines."""

import json
import posixpath
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from casmap.annotations.coco import mask_of
from casmap.annotations.types import (
    NOTHING,
    Annotations,
    Kind,
    Known,
    LeftOut,
    Names,
    Problem,
    Size,
    Thing,
    area,
    edges,
)
from casmap.annotations.voc import xml_root
from casmap.errors import UserError
from casmap.io.images import MAX_PIXELS

LONGEST_XML = 500 * 2**20  # bytes: one file for all photos
KINDS = ("rectanglelabels", "polygonlabels")


def read_label_studio(path: Path, names: Names) -> Annotations:
    """Tasks as Label Studio exports them (JSON); what people said, or the predictions where nobody has looked yet."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{path} is not readable JSON.") from error
    problems: list[Problem] = []
    known: dict[str, Known] = {}
    for number, task in enumerate(tasks):
        try:
            said = _photo_of(task["data"])
            regions = _regions(task)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            problems.append(Problem(Kind.MALFORMED, f"{path.name}, task {number}: it is not one of Label Studio's"))
            continue
        name = _find(said, names)
        if name is None:
            problems.append(Problem(Kind.NO_PHOTO, said))
        else:
            known[name] = _known(name, partial(_studio_things, regions), _size(regions))
    return Annotations(
        "boxes and outlines from Label Studio", lambda photo: known.get(photo, NOTHING), problems=problems
    )


def read_cvat(path: Path, names: Names) -> Annotations:
    """CVAT for images 1.1: boxes and polygons."""
    try:
        root = xml_root(path, LONGEST_XML)
    except LeftOut as bad:
        raise UserError(f"{path} cannot be read: {bad.why}.") from bad
    problems: list[Problem] = []
    known: dict[str, Known] = {}
    for image in root.findall("image"):
        said = image.get("name", "")
        name = names.find(said)
        if name is None:
            problems.append(Problem(Kind.NO_PHOTO, said))
            continue
        sides = image.get("width", ""), image.get("height", "")
        size = (int(sides[0]), int(sides[1])) if all(side.isdecimal() for side in sides) else None
        known[name] = _known(name, partial(_cvat_things, image), size)
    return Annotations("boxes and outlines from CVAT", lambda photo: known.get(photo, NOTHING), problems=problems)


def is_label_studio(path: Path) -> bool:
    """Whether a JSON file is a list, as Label Studio's are; COCO's is an object."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return file.read(64).lstrip().startswith("[")


def _known(name: str, things_of: Any, size: Size | None) -> Known:
    """Outlines, where there are any, else boxes: who draws both means the outline."""
    outlined: list[Thing] = []
    boxes: list[Thing] = []
    problems: list[Problem] = []
    for make in things_of():
        try:
            thing = make()
            (outlined if thing.outline else boxes).append(thing)
        except LeftOut as bad:
            problems.append(bad.problem(name))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            problems.append(Problem(Kind.MALFORMED, f"{name}: a region that cannot be read"))
    fits = size is not None and 0 < size[0] * size[1] <= MAX_PIXELS
    mask = partial(mask_of, size, ()) if fits and size is not None else None
    return Known(outlined or boxes, size if fits else None, mask=mask if outlined else None, problems=problems)


def _photo_of(data: dict[str, Any]) -> str:
    """The address of the photo of a task: under `image`, or the only text."""
    value = data.get("image") or next(text for text in data.values() if isinstance(text, str))
    if not isinstance(value, str):
        raise TypeError("no address")
    return value


def _find(address: str, names: Names) -> str | None:
    """The photo behind an address: of a local file, an upload (with eight letters before its name), or a URL."""
    parts = urlsplit(address)
    local = parse_qs(parts.query).get("d", [""])[0]
    said = local or unquote(parts.path)
    last = said.rpartition("/")[2]
    found = names.find(said.lstrip("/")) or names.find(last)
    if found is None and said.count("/"):  # a folder of the class, whatever stands before it
        found = names.find(posixpath.join(*said.split("/")[-2:]))
    uploaded = last.partition("-")[2]
    return found or (names.find(uploaded) if uploaded else None)


def _regions(task: dict[str, Any]) -> list[dict[str, Any]]:
    done = [one for one in task.get("annotations") or [] if not one.get("was_cancelled")]
    chosen = done[-1] if done else (task.get("predictions") or [{"result": []}])[-1]
    return [region for region in chosen["result"] if region.get("type") in KINDS]


def _size(regions: list[dict[str, Any]]) -> Size | None:
    for region in regions:
        width, height = region.get("original_width"), region.get("original_height")
        if type(width) is int and type(height) is int:
            return width, height
    return None


def _studio_things(regions: list[dict[str, Any]]) -> Iterator[Any]:
    for region in regions:
        yield partial(_studio_thing, region)


def _studio_thing(region: dict[str, Any]) -> Thing:
    value, kind = region["value"], region["type"]
    across, down = region["original_width"] / 100, region["original_height"] / 100
    label = str(value[kind][0])
    if kind == "polygonlabels":
        return _outlined(label, [(float(x) * across, float(y) * down) for x, y in value["points"]])
    if value.get("rotation"):
        raise LeftOut(Kind.BOX_LEFT_OUT, "a turned rectangle")
    x, y = value["x"] * across, value["y"] * down
    box = edges((x, y, x + value["width"] * across, y + value["height"] * down))
    return Thing(label, box, area(box))


def _cvat_things(image: Any) -> Iterator[Any]:
    for item in image:
        if item.tag == "box":
            yield partial(_cvat_box, item)
        elif item.tag == "polygon":
            yield partial(_cvat_polygon, item)


def _cvat_box(item: Any) -> Thing:
    box = edges(item.get(key) for key in ("xtl", "ytl", "xbr", "ybr"))
    return Thing(item.get("label", ""), box, area(box))


def _cvat_polygon(item: Any) -> Thing:
    pairs = [point.split(",") for point in item.get("points", "").split(";")]
    return _outlined(item.get("label", ""), [(float(x), float(y)) for x, y in pairs])


def _outlined(label: str, points: list[tuple[float, float]]) -> Thing:
    across, down = [x for x, _ in points], [y for _, y in points]
    box = edges((min(across), min(down), max(across), max(down)))
    return Thing(label, box, area(box), outline=[[number for point in points for number in point]])
