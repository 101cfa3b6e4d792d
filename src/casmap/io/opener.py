"""Opener: open photos in processes that can be killed, so that a hostile file costs its process and nothing else.

A file of some kilobytes can keep a decoder busy for minutes, make it need all memory, or crash it. A thread cannot be
stopped; a process can.
"""

import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from queue import LifoQueue
from typing import Any

import numpy as np

from casmap.errors import InvalidImage, TooLarge, TooSlow, UnreadableImage, UserError
from casmap.io.arrays import Window
from casmap.io.decoding import is_url
from casmap.io.images import Image, Opened, Source, open_photo, path_of
from casmap.io.size_limits import MAX_PIXELS

# The slowest format, lossless JPEG 2000, took 1.84 s for 10 million pixels: about 33 s for the largest photo.
CPU_SECONDS = 60
# A process that waits for a slow disk or a busy machine uses no CPU time.
WALL_SECONDS = 5 * CPU_SECONDS
# Of addresses. Python and its libraries took 150 MB. Of 11 kinds of files of 20 million pixels, a TIFF of 32-bit grey
# values, which are stretched in 64 bits, took most: 44 bytes for a pixel.
BASE_BYTES, PIXEL_BYTES = 1 << 30, 48
KEPT_BYTES = 64 << 20  # of shared memory between two photos: more than a photo of 20 million pixels
PATIENCE = 10  # seconds for a killed process to end
POSIX = os.name == "posix"  # elsewhere photos are opened in this process
ERRORS = {error.__name__: error for error in (UnreadableImage, InvalidImage, TooLarge)}
START = "import sys; sys.path[:] = sys.argv[4:]; from casmap.io.worker import main; main()"


class Opener:
    """Opens photos as `open_photo` does, from paths and bytes, in processes of its own; threads may share it.

    workers: at most so many processes; each opens one photo at a time. max_pixels, cpu_seconds: limits of a photo.
    A process starts when it is needed, or by `start`, and ends with the `with` block.

    >>> from casmap.io.images import encode_png
    >>> with Opener(workers=1) as opener:
    ...     opener(encode_png(np.zeros((2, 3), np.uint8))).image.shape
    (2, 3, 3)
    """

    def __init__(self, workers: int, max_pixels: int = MAX_PIXELS, cpu_seconds: int = CPU_SECONDS) -> None:
        self.max_pixels, self.cpu_seconds = min(max_pixels, MAX_PIXELS), cpu_seconds
        self._places: LifoQueue[Worker | None] = LifoQueue()  # the last one used is the first to be used again
        for _ in range(workers):
            self._places.put(None)

    def __enter__(self) -> "Opener":
        return self

    def __exit__(self, *_: object) -> None:
        places = [self._places.get() for _ in range(self._places.qsize())]
        for worker in places:
            if worker is not None:
                worker.stop()
            self._places.put(None)

    def start(self, workers: int) -> None:
        """Start processes without waiting for them: they become ready while the caller does something else."""
        if POSIX:
            for worker in [self._take() for _ in range(min(workers, self._places.qsize()))]:
                self._places.put(worker)

    def __call__(
        self, source: Source, *, window: Window | None = None, least: int | None = None, seconds: float = WALL_SECONDS
    ) -> Opened:
        """Open a photo in a free process. seconds: after this time the process is killed and TooSlow raised."""
        options: dict[str, Any] = {"window": window, "least": least, "max_pixels": self.max_pixels}
        content, path = (source, "") if isinstance(source, bytes) else (b"", path_of(source))
        # Arrays and Pillow images are decoded already; an empty file and a URL are not opened.
        if not POSIX or not (content or isinstance(source, str | os.PathLike)) or is_url(path):
            return open_photo(source, **options)
        options["name"] = path or "The given image"
        # Not os.path.abspath: link/.. is not the folder of the link.
        options |= {"bytes": len(content)} if content else {"path": os.path.join(os.getcwd(), path)}
        worker = self._take()
        try:
            return worker.open(options, content, seconds)
        finally:
            self._places.put(worker)

    def _take(self) -> "Worker":
        """Wait for a free place, and start a process unless it has one."""
        worker = self._places.get()
        if worker is not None and worker.runs():
            return worker
        try:
            return Worker(BASE_BYTES + PIXEL_BYTES * self.max_pixels, self.cpu_seconds)
        except BaseException:
            self._places.put(None)
            raise


class Worker:
    """A process that opens one photo after another, until one of them is too much for it. start: its program."""

    def __init__(self, memory: int, cpu_seconds: int, start: str = START) -> None:
        self.cpu_seconds = cpu_seconds
        self._ready, self._received = False, b""
        self._shared = shared_file()
        limits = map(str, (self._shared.fileno(), memory, cpu_seconds))
        # Not "", the working directory: it may be a stranger's folder, whose modules must not be imported.
        path = [os.path.abspath(entry) for entry in sys.path if entry]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", start, *limits, *path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                pass_fds=[self._shared.fileno()], start_new_session=True,  # Ctrl-C is for the parent
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        except OSError as error:
            raise UserError(f"Cannot start a process that opens photos: {error.strerror or error}.") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def runs(self) -> bool:
        """Return whether the process can open another photo; if not, close what is left of it."""
        if self._process.poll() is not None:
            self.stop()
        return not self._requests.closed

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._wait()
        for file in (self._requests, self._answers, self._shared):
            file.close()

    def open(self, request: dict[str, Any], content: bytes, seconds: float) -> Opened:
        """Open a photo, or raise its error."""
        answer, image = self.answer(request, content, seconds)
        if image is None:
            raise UnreadableImage(f"{request['name']} cannot be opened.")
        return Opened(image, answer["width"], answer["height"])

    def answer(self, request: dict[str, Any], content: bytes, seconds: float) -> tuple[dict[str, Any], Image | None]:
        """Send a request; returns the answer and its image, if it has one, or raises its error."""
        name = request["name"]
        try:
            answer, image = self._ask(request, content, time.monotonic() + seconds)
        except TimeoutError:
            if self._ready:  # a process that is still starting is not to blame: it opens the next photo
                self.stop()
            raise TooSlow(f"{name} takes more than {seconds:g} s to open.") from None
        except (OSError, EOFError, ValueError, KeyError) as error:
            code = self._wait()
            self.stop()
            if not self._ready:
                raise UserError(f"The process that opens photos does not start (exit code {code}).") from error
            raise UnreadableImage(f"{name} {self._reason(code)}.") from error
        except BaseException:  # Ctrl-C: the answer would be taken for that of the next photo
            self.stop()
            raise
        if "error" in answer:
            raise ERRORS[answer["type"]](answer["error"])
        return answer, image

    def _ask(self, request: dict[str, Any], content: bytes, end: float) -> tuple[dict[str, Any], Image | None]:
        """Send a request; returns the answer and its image, or None if it has none."""
        if not self._ready:
            self._line(end)
            self._ready = True
        if content:
            self._shared.seek(0)
            self._shared.write(content)
        self._requests.write(json.dumps(request).encode() + b"\n")
        answer = json.loads(self._line(end))
        if "size" not in answer:
            return answer, None
        width, height = answer["size"]
        if not 0 < height * width <= MAX_PIXELS:
            raise ValueError
        image = np.empty((height, width, 3), np.uint8)
        self._shared.seek(0)
        if self._shared.readinto(image.data) != image.nbytes:
            raise EOFError
        if max(image.nbytes, len(content)) > KEPT_BYTES:
            self._shared.truncate(0)
        return answer, image

    def _line(self, end: float) -> bytes:
        """Return the next line of the process; raise TimeoutError at the time `end`, and EOFError if it has ended."""
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        while b"\n" not in self._received:
            if not waiting.poll(1000 * max(0.0, end - time.monotonic())):
                raise TimeoutError
            received = self._answers.read(1 << 16)
            if not received:
                raise EOFError
            self._received += received
        line, self._received = self._received.split(b"\n", 1)
        return line

    def _wait(self) -> int | None:
        """Wait for the end of the process; returns its exit code, None if it does not end."""
        with suppress(subprocess.TimeoutExpired):  # it cannot be killed while it waits for a dead network drive
            return self._process.wait(PATIENCE)
        return None

    def _reason(self, code: int | None) -> str:
        """Return the part of the error message that follows the photo's name."""
        if code == -signal.SIGXCPU:
            return f"takes more than {self.cpu_seconds} s of CPU time to open"
        ended = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return f"cannot be opened: the process that decoded it ended ({ended})"


def shared_file() -> io.FileIO:
    """Return an unbuffered file without a name: in memory where the system has such files, else on disk.

    >>> with shared_file() as file:
    ...     file.write(b"pixels")
    6
    """
    with suppress(AttributeError, OSError):  # not Linux, or forbidden
        return io.FileIO(os.memfd_create("casmap"), "r+")
    with tempfile.TemporaryFile() as file:
        return io.FileIO(os.dup(file.fileno()), "r+")
