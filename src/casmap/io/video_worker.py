"""The process in which `casmap.io.video` decodes a video: it has the limits of `casmap.io.worker`."""

import os
import re
from pathlib import Path
from typing import IO, Any

from casmap.errors import UnreadableImage
from casmap.io import worker
from casmap.io.decoding import errors_of
from casmap.io.size_limits import check_size

# How videos begin. FFmpeg would also open playlists, which are text and can name other files and addresses.
# The size of MP4's first box is from 8 to 2**16 - 1: it starts with two zeros, which no text does.
BEGINNINGS = {"MP4": rb"\0\0(?!\0[\0-\x07])..ftyp", "Matroska": rb"\x1a\x45\xdf\xa3", "AVI": rb"RIFF....AVI "}


def main() -> None:
    """Answer requests for frames until the input ends."""
    # Read by OpenCV when it opens a video: no protocols but files, and one thread.
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = "protocol_whitelist;file|threads;1"
    worker.main(Video().answer)


class Video:
    """A video that is being decoded; the first request opens it."""

    def __init__(self) -> None:
        self.capture: Any = None
        self.number = -1  # of the last frame that was decoded

    def answer(self, request: dict[str, Any], file: IO[bytes]) -> dict[str, Any]:
        """Decode the frame with the number of the request, or a later one; the answer has no size at the end."""
        try:
            with errors_of(request["name"]):
                return self._decode(request, file)
        except UnreadableImage as error:
            return {"error": str(error), "type": type(error).__name__}

    def _decode(self, request: dict[str, Any], file: IO[bytes]) -> dict[str, Any]:
        import cv2

        if self.capture is None:
            check_beginning(Path(request["path"]))
            self.capture = cv2.VideoCapture(request["path"], cv2.CAP_FFMPEG)
            if not self.capture.isOpened():
                raise ValueError("it is damaged, or its codec is not supported")
            width, height = (self.capture.get(side) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
            check_size(int(width), int(height), request["max_pixels"])
        while self.number < request["frame"]:
            if not self.capture.grab():
                return {}
            self.number += 1
        seconds = self.capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
        decoded, image = self.capture.retrieve()
        if not decoded:
            return {}
        height, width = image.shape[:2]
        check_size(width, height, request["max_pixels"])  # it can change on the way
        file.seek(0)
        file.write(cv2.cvtColor(image, cv2.COLOR_BGR2RGB).tobytes())
        rate, count = float(self.capture.get(cv2.CAP_PROP_FPS)), int(self.capture.get(cv2.CAP_PROP_FRAME_COUNT))
        return {"size": [width, height], "frame": self.number, "seconds": seconds, "rate": rate, "count": count}


def check_beginning(path: Path) -> None:
    """Raise ValueError unless a file begins like a video.

    >>> check_beginning(Path(__file__))
    Traceback (most recent call last):
    ValueError: it is not a video in a supported format (MP4, Matroska, AVI)
    """
    with open(path, "rb") as file:
        start = file.read(64)
    if not any(re.match(pattern, start, re.DOTALL) for pattern in BEGINNINGS.values()):
        raise ValueError(f"it is not a video in a supported format ({', '.join(BEGINNINGS)})")
