"""Label Studio: tasks whose predictions people correct, and the labelling interface that shows them."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from casmap.annotations.labelled import Labelled, Object, xml
from casmap.io.atomic import write_whole
from casmap.version import __version__

TASKS, CONFIG = "tasks.json", "config.xml"
LOCAL = "/data/local-files/?d="  # how Label Studio names files on its own machine


def write_label_studio(photos: list[Labelled], labels: list[str], out: Path, prefix: str = LOCAL) -> Path:
    """Write tasks.json and config.xml; prefix: what stands before a photo's name in its address."""
    tasks = [
        {
            "data": {"image": f"{prefix}{quote(photo.name)}"},
            "predictions": [
                {
                    "model_version": f"casmap {__version__}",
                    "score": round(max((one.score for one in photo.objects), default=0.0), 4),
                    "result": [
                        region for number, one in enumerate(photo.objects) for region in regions(one, photo, number)
                    ],
                }
            ],
        }
        for photo in photos
    ]
    write_whole(out / TASKS, json.dumps(tasks) + "\n")
    write_whole(out / CONFIG, config(labels))
    return out / TASKS


def regions(one: Object, photo: Labelled, number: int) -> list[dict[str, Any]]:
    """A rectangle and a polygon for an object, in percent of the photo."""
    x0, y0, x1, y1 = one.box
    across, down = 100 / photo.width, 100 / photo.height
    rectangle = {
        "x": x0 * across, "y": y0 * down, "width": (x1 - x0) * across, "height": (y1 - y0) * down, "rotation": 0,
        "rectanglelabels": [one.label],
    }  # fmt: skip
    polygon = {
        "points": [[x * across, y * down] for x, y in one.polygon], "closed": True, "polygonlabels": [one.label],
    }  # fmt: skip
    both = {"box": ("rectanglelabels", rectangle), "outline": ("polygonlabels", polygon)}
    return [
        {
            "id": f"{name}-{number}", "type": kind, "from_name": name, "to_name": "image", "value": value,
            "original_width": photo.width, "original_height": photo.height, "image_rotation": 0,
            "score": round(one.score, 4),
        }
        for name, (kind, value) in both.items()
    ]  # fmt: skip


def config(labels: list[str]) -> str:
    """The labelling interface: boxes and outlines with these classes."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name="image", value="$image")
    for tag, name in (("RectangleLabels", "box"), ("PolygonLabels", "outline")):
        tool = ElementTree.SubElement(view, tag, name=name, toName="image")
        for label in labels:
            ElementTree.SubElement(tool, "Label", value=label)
    return xml(view)
