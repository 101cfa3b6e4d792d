"""YOLO, as Ultralytics reads it: a text file for each photo, with boxes or outlines as shares of it, and data.yaml."""

import json
from collections.abc import Iterator
from pathlib import Path

from casmap.annotations.labelled import Labelled, Object, place
from casmap.io.atomic import write_whole
from casmap.io.names import unique_names


def write_yolo(photos: list[Labelled], labels: list[str], out: Path, outlines: bool = False) -> Path:
    """Write images/, labels/ and data.yaml; the photos are linked where the disk allows it, else copied."""
    names = unique_names([photo.file for photo in photos])
    for photo in photos:
        place(photo.file, out / "images" / f"{names[photo.file]}{photo.file.suffix}")
        lines = [line(one, labels.index(one.label), photo, outlines) for one in photo.objects]
        write_whole(out / "labels" / f"{names[photo.file]}.txt", "".join(f"{text}\n" for text in lines))
    # JSON's strings are YAML's: no class's name can break the file.
    named = "".join(f"  {number}: {json.dumps(label)}\n" for number, label in enumerate(labels))
    write_whole(out / "data.yaml", f"train: images\nval: images\nnames:\n{named}")
    return out / "data.yaml"


def line(one: Object, number: int, photo: Labelled, outlines: bool) -> str:
    """The class, then centre and size of the box, or the points of the outline, from 0 to 1.

    >>> one = Object("cat", (10, 0, 30, 20), [(10, 0), (30, 0), (30, 20)], {}, 200, 1.0)
    >>> line(one, 2, Labelled(Path("a.jpg"), "a.jpg", 100, 50, (one,)), outlines=False)
    '2 0.200000 0.200000 0.200000 0.400000'
    """
    x0, y0, x1, y1 = one.box
    box = ((x0 + x1) / 2 / photo.width, (y0 + y1) / 2 / photo.height, (x1 - x0) / photo.width, (y1 - y0) / photo.height)
    numbers = _points(one, photo) if outlines else iter(box)
    return " ".join([str(number), *(f"{share:.6f}" for share in numbers)])


def _points(one: Object, photo: Labelled) -> Iterator[float]:
    for x, y in one.polygon:
        yield x / photo.width
        yield y / photo.height
