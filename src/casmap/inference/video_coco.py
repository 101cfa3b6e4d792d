"""The objects of a video as COCO for videos: frames are images, and an object keeps its number from frame to frame."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pycocotools import mask as run_lengths

from casmap.annotations.labelled import Object
from casmap.io.atomic import write_whole
from casmap.io.video import Frame

FILE = "annotations.json"
SAME = 0.3  # IoU of the masks of an object in two frames, at least


@dataclass
class VideoObjects:
    """The largest object of each frame of a video, with the pixels of its mask.

    An object has the `instance_id` of the last one before it in its scene if the IoU of their masks is at least 0.3.
    """

    video: str
    images: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    instances: int = 0
    _last: Object | None = None

    def add(self, frame: Frame, found: Object | None, new_scene: bool) -> None:
        """Add a frame and its object, if it has one."""
        number, (height, width) = len(self.images), frame.image.shape[:2]
        place = {"id": number + 1, "video_id": 1, "frame_id": number, "file_name": frame_name(self.video, frame.number)}
        when = {"frame": frame.number, "seconds": round(frame.seconds, 3)}
        self.images.append(place | {"width": width, "height": height} | when)
        if new_scene:
            self._last = None
        if found is None:
            return
        if self._last is None or run_lengths.iou([found.rle], [self._last.rle], [0])[0, 0] < SAME:
            self.instances += 1
        self._last = found
        x0, y0, x1, y1 = found.box
        self.annotations.append({
            "id": len(self.annotations) + 1, "image_id": number + 1, "video_id": 1, "category_id": 1,
            "instance_id": self.instances, "bbox": [x0, y0, x1 - x0, y1 - y0], "area": found.area,
            "segmentation": found.rle, "iscrowd": 0, "score": round(found.score, 4),
        })  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write annotations.json."""
        content = {
            "info": {"description": "Made by casmap, from class labels only."},
            "videos": [{"id": 1, "name": self.video}],
            "images": self.images,
            "categories": [{"id": 1, "name": "object", "supercategory": ""}],
            "annotations": self.annotations,
        }
        write_whole(folder / FILE, json.dumps(content) + "\n")


def frame_name(video: str, number: int) -> str:
    """The name of a frame.

    >>> frame_name("clip.mp4", 5)
    'clip.mp4#frame=5'
    """
    return f"{video}#frame={number}"
