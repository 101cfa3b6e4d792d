"""The objects of a video as COCO for videos: frames are images, and an object keeps its number from frame to frame."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from pycocotools import mask as run_lengths

from casmap.annotations.labelled import Object
from casmap.io.atomic import whole_file
from casmap.io.video import Frame

FILE = "annotations.json"
SAME = 0.3  # IoU of the masks of an object in two frames, at least


@dataclass
class VideoObjects:
    """The largest object of each frame of a video, with the pixels of its mask.

    An object has the `instance_id` of the last one before it in its scene if the IoU of their masks is at least 0.3.
    images, annotations: files that get the entries of both lists of the JSON file.
    """

    video: str
    images: TextIO
    annotations: TextIO
    frames: int = 0
    objects: int = 0
    instances: int = 0
    _last: Object | None = None

    def add(self, frame: Frame, found: Object | None, new_scene: bool) -> None:
        """Add a frame and its object, if it has one."""
        number, (height, width) = self.frames, frame.image.shape[:2]
        place = {"id": number + 1, "video_id": 1, "frame_id": number, "file_name": frame_name(self.video, frame.number)}
        when = {"frame": frame.number, "seconds": round(frame.seconds, 3)}
        _add(self.images, place | {"width": width, "height": height} | when, number)
        self.frames += 1
        if new_scene:
            self._last = None
        if found is None:
            return
        if self._last is None or run_lengths.iou([found.rle], [self._last.rle], [0])[0, 0] < SAME:
            self.instances += 1
        self._last = found
        x0, y0, x1, y1 = found.box
        annotation = {
            "id": self.objects + 1, "image_id": number + 1, "video_id": 1, "category_id": 1,
            "instance_id": self.instances, "bbox": [x0, y0, x1 - x0, y1 - y0], "area": found.area,
            "segmentation": found.rle, "iscrowd": 0, "score": round(found.score, 4),
        }  # fmt: skip
        _add(self.annotations, annotation, self.objects)
        self.objects += 1


@contextmanager
def video_objects(folder: Path, video: str) -> Iterator[VideoObjects]:
    """Write annotations.json while objects are added; it appears when the block has ended.

    Nothing is kept in memory: annotations wait in a file without a name, because they come after the list of images.
    """
    before = {"info": {"description": "Made by casmap, from class labels only."}, "videos": [{"id": 1, "name": video}]}
    between = {"categories": [{"id": 1, "name": "object", "supercategory": ""}]}
    with (
        whole_file(folder / FILE) as temporary,
        open(temporary, "w", encoding="utf-8") as file,
        TemporaryFile("w+", encoding="utf-8", dir=folder) as annotations,
    ):
        file.write(f'{json.dumps(before)[:-1]}, "images": [')
        yield VideoObjects(video, file, annotations)
        file.write(f'], {json.dumps(between)[1:-1]}, "annotations": [')
        annotations.seek(0)
        shutil.copyfileobj(annotations, file)
        file.write("]}\n")


def _add(file: TextIO, entry: dict[str, Any], number: int) -> None:
    """Append an entry with this number to a list in a file."""
    file.write(f"{', ' if number else ''}{json.dumps(entry)}")


def frame_name(video: str, number: int) -> str:
    """The name of a frame.

    >>> frame_name("clip.mp4", 5)
    'clip.mp4#frame=5'
    """
    return f"{video}#frame={number}"
