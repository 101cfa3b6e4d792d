"""The process in which `casmap.io.opener` opens photos: it has limits, and can be killed without harm.

It reads requests from its standard input, a JSON object on each line, and answers each with a line. Content and pixels
are in a file that it shares with its parent. It ends with its input, so it survives its parent by a photo at most.
It imports NumPy only if a photo needs it, which few do: half of the time of its start would be NumPy's.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

import PIL.Image

from casmap.errors import UnreadableImage
from casmap.io.decoding import decode, errors_of
from casmap.io.memory import reuse_memory


def main(reply: Callable[[dict[str, Any], IO[bytes]], dict[str, Any]] | None = None) -> None:
    """Answer requests until the input ends. Arguments: number of the shared file, bytes, seconds of CPU time.

    reply: takes a request and the shared file, and returns the answer (default: open a photo).
    """
    reply = reply or answer
    shared, memory, cpu_seconds = (int(argument) for argument in sys.argv[1:4])
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    limit(memory)
    reuse_memory()
    PIL.Image.preinit()
    nothing = os.open(os.devnull, os.O_RDWR)
    with open(shared, "r+b", buffering=0) as file:
        answers.write(b"{}\n")  # ready
        for stream in (0, 1, 2):  # what a decoder prints must not be taken for an answer
            os.dup2(nothing, stream)
        for line in requests:
            limit_cpu(cpu_seconds)
            answers.write(json.dumps(reply(json.loads(line), file)).encode() + b"\n")


def answer(request: dict[str, Any], file: IO[bytes]) -> dict[str, Any]:
    """Open a photo and write its pixels to the shared file; returns its sizes, or the error.

    >>> import tempfile
    >>> answer({"path": "missing.jpg", "name": "missing.jpg"}, tempfile.TemporaryFile())
    {'error': 'missing.jpg does not exist.', 'type': 'UnreadableImage'}
    """
    source, options = request.pop("path", None), request
    if source is None:
        file.seek(0)
        source = file.read(options.pop("bytes"))
    try:
        with errors_of(options.pop("name")):
            decoded = decode(source, **options)
            pixels = decoded.image.tobytes()
    except UnreadableImage as error:
        return {"error": str(error), "type": type(error).__name__}
    file.seek(0)
    file.write(pixels)
    return {"size": decoded.image.size, "width": decoded.width, "height": decoded.height}


def limit(memory: int) -> None:
    """Limit this process: bytes of addresses, no core files, and the first to go if the machine runs out of memory."""
    import resource  # not on Windows

    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        with suppress(OSError, ValueError):  # macOS does not limit addresses
            resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def limit_cpu(seconds: int) -> None:
    """Let the kernel end this process, with SIGXCPU, after some more seconds of CPU time."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    with suppress(OSError, ValueError):  # beyond a limit that the user has set
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, hard))
