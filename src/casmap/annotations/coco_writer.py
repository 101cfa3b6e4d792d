"""COCO: one JSON file with all photos, boxes and polygons or run lengths."""

import json
from pathlib import Path
from typing import Any

from casmap.annotations.labelled import Labelled
from casmap.io.atomic import write_whole

FILE = "annotations.json"


def write_coco(photos: list[Labelled], labels: list[str], out: Path, rle: bool = False) -> Path:
    """Write annotations.json; rle: pixels exactly, holes too, instead of polygons, which tools let people edit."""
    numbers = {label: number for number, label in enumerate(labels, 1)}
    annotations: list[dict[str, Any]] = []
    for image, photo in enumerate(photos, 1):
        for one in photo.objects:
            x0, y0, x1, y1 = one.box
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": numbers[one.label],
                    "bbox": [x0, y0, x1 - x0, y1 - y0],
                    "area": one.area,
                    "segmentation": one.rle if rle else [[number for point in one.polygon for number in point]],
                    "iscrowd": 0,
                    "score": round(one.score, 4),
                }
            )
    content = {
        "info": {"description": "Made by casmap, from class labels only."},
        "images": [
            {"id": number, "file_name": photo.name, "width": photo.width, "height": photo.height}
            for number, photo in enumerate(photos, 1)
        ],
        "categories": [{"id": number, "name": label, "supercategory": ""} for label, number in numbers.items()],
        "annotations": annotations,
    }
    write_whole(out / FILE, json.dumps(content) + "\n")
    return out / FILE
