"""GeoJSON as QuPath reads and writes it: a file for each photo, with a feature for each object, in pixels."""

import colorsys
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled, Object
from casmap.annotations.regions import collect_objects, mask_of, object_from_box
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
)
from casmap.errors import UserError, option
from casmap.io.atomic import write_whole
from casmap.io.names import LONGEST, file_name, read_name
from casmap.io.reading import read_text

SUFFIX = ".geojson"
MAX_BYTES = 100 * 2**20  # of the file for one photo: a slide can have 100,000 objects
AREAS = ("Polygon", "MultiPolygon")  # points and lines have none
GOLDEN = 0.618  # of the circle of hues, between one class and the next: neighbours differ clearly


def recognises(path: Path) -> bool:
    """Return whether a path is a GeoJSON file, or a folder that contains some."""
    return path.suffix.lower() == SUFFIX if path.is_file() else next(path.rglob(f"*{SUFFIX}"), None) is not None


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read a file named like its photo, or a folder of such files; each is parsed on demand."""
    if path.is_dir():
        files, problems = names.files(path, SUFFIX)
    else:
        name = names.find(path.stem)
        files = {} if name is None else {name: path}
        problems = [Problem(Kind.NO_PHOTO, path.name)] if name is None else []
    kind = "outlines from GeoJSON files"
    return Annotations(kind, lambda photo: _parse(files[photo]) if photo in files else NO_RECORD, problems=problems)


def _parse(path: Path) -> PhotoRecord:
    """Read all objects of one file: a collection, a list of features, or a single one."""
    try:
        content = json.loads(read_text(path, MAX_BYTES))
        features = content if isinstance(content, list) else content.get("features", [content])
        areas = [one for one in features if one.get("geometry") and one["geometry"].get("type") in AREAS]
    except Exception:  # a file of others can be anything
        return PhotoRecord(problems=[Problem(Kind.MALFORMED, f"{path.name}: not a GeoJSON file")])
    return replace(collect_objects(path.name, [partial(_parse_object, one) for one in areas]), mask=_mask)


def _parse_object(feature: dict[str, Any]) -> AnnotatedObject:
    """Make an object from all polygons of a feature; its class is QuPath's classification."""
    shape = feature["geometry"]
    polygons = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
    outline = [[float(number) for point in _joined(rings) for number in point[:2]] for rings in polygons]
    across, down = ([number for ring in outline for number in ring[axis::2]] for axis in (0, 1))
    known = (feature.get("properties") or {}).get("classification") or {}
    edges = min(across), min(down), max(across), max(down)
    return object_from_box(str(known.get("name") or ""), edges, outline=outline)


def _joined(rings: Sequence[Sequence[Any]]) -> list[Any]:
    """Join an outline and its holes in one line, by cuts without width from the outline to each hole and back.

    >>> _joined(["abca", "xyzx"])
    ['a', 'b', 'c', 'a', 'x', 'y', 'z', 'x', 'a']
    """
    outer, *holes = rings
    return [*outer, *(point for hole in holes for point in (*hole, outer[-1]))]


def _mask(objects: Sequence[AnnotatedObject], size: Size) -> Mask | None:
    return mask_of(size, (), objects, size)  # a file does not say for which size it was made


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write a file for each photo, with the photo's path: an annotation of QuPath for each object."""
    paths = [read_name(photo.name) for photo in photos]
    names = Names(paths)
    for photo, path in zip(photos, paths, strict=True):
        features = [_feature(one, labels.index(one.label), photo.name, at) for at, one in enumerate(photo.objects)]
        collection = {"type": "FeatureCollection", "features": features}
        write_whole(out / f"{_file(path, names)}{SUFFIX}", json.dumps(collection) + "\n")
    return out


def _file(path: str, names: Names) -> str:
    """Return the name, without suffix, of the file of a photo: the shortest by which it is found again.

    >>> names = Names(["cat/1.jpg", "cat/1.png", "dog/2.jpg"])
    >>> _file("cat/1.jpg", names), _file("dog/2.jpg", names)
    ('cat/1.jpg', 'dog/2')
    """
    stem = Path(path).with_suffix("")
    for one in (stem.as_posix(), path, file_name(stem.name)):
        if len(os.fsencode(Path(one).name)) <= LONGEST and names.find(one) == path:
            return one
    raise UserError(f"The name of {path} is too long and not unique: rename it, or choose another {option('format')}.")


def _feature(one: Object, number: int, name: str, at: int) -> dict[str, Any]:
    """Return an object as a feature. Its id depends on the photo's name alone: QuPath replaces objects of the same id.

    >>> one = Object("cat", (1, 0, 3, 2), [(1.0, 0.0), (3.0, 0.0), (3.0, 2.0)], {}, 2, 0.9)
    >>> _feature(one, 0, "a.jpg", 0)["geometry"]
    {'type': 'Polygon', 'coordinates': [[(1.0, 0.0), (3.0, 0.0), (3.0, 2.0), (1.0, 0.0)]]}
    """
    colour = [round(255 * share) for share in colorsys.hsv_to_rgb(GOLDEN * number % 1, 0.9, 0.9)]
    return {
        "type": "Feature",
        "id": str(uuid5(NAMESPACE_URL, f"{name}#{at}")),
        "geometry": {"type": "Polygon", "coordinates": [[*one.polygon, one.polygon[0]]]},
        "properties": {
            "objectType": "annotation",
            "classification": {"name": one.label, "color": colour},
            "measurements": {"score": round(one.score, 4)},
        },
    }


FORMATS.register("geojson")(Format(recognises, read, write))
