"""Decode videos frame by frame in a process that can be killed; memory does not grow with the video."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from casmap.errors import UserError
from casmap.io.images import Image
from casmap.io.opener import BASE_BYTES, CPU_SECONDS, PIXEL_BYTES, POSIX, WALL_SECONDS, Worker

SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi")
MAX_PIXELS = 64 * 10**6  # of a frame: 8K has 33 million
MOST = 100_000  # frames that are decoded to pixels: an hour at 25 frames per second
START = "import sys; sys.path[:] = sys.argv[4:]; from casmap.io.video_worker import main; main()"


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame (H, W, 3), its number from 0, and its time in seconds.

    rate, count: frames per second and frames of the video, as the file says.
    """

    image: Image
    number: int
    seconds: float
    rate: float
    count: int


def is_video(path: str | os.PathLike[str]) -> bool:
    """Return whether a path has the suffix of a video.

    >>> is_video("trip/clip.MP4"), is_video("trip/cat.jpg")
    (True, False)
    """
    return Path(path).suffix.lower() in SUFFIXES


def frames(path: str | os.PathLike[str], every: int = 1, most: int = MOST) -> Iterator[Frame]:
    """Yield every n-th frame of a video, upright; raise UserError after `most` frames.

    Raises UnreadableImage if the video cannot be decoded, or a frame takes more CPU time or memory than a photo may.
    """
    if not POSIX:
        raise UserError("Videos are decoded in a separate process, which needs Linux or macOS.")
    worker = Worker(BASE_BYTES + PIXEL_BYTES * MAX_PIXELS, CPU_SECONDS, START)
    request = {"name": os.fspath(path), "path": os.path.abspath(path), "max_pixels": MAX_PIXELS}
    try:
        for count in range(most + 1):
            asked = dict(request, frame=count * every)
            answer, image = worker.answer(asked, b"", WALL_SECONDS)
            if image is None:
                return
            if count == most:
                raise UserError(f"{path} has more than {most:,} frames to map: choose fewer (every).")
            yield Frame(image, answer["frame"], answer["seconds"], answer["rate"], answer["count"])
    finally:
        worker.stop()
