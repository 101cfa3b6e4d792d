"""Where the time of `casmap extract` goes: ms for a photo in each stage, wall time and CPU time of the threads.

python benchmarks/stages.py [PHOTOS]

Without PHOTOS: 500 scenes of 512 x 384 pixels as JPEG files. A stage inside another is indented. Two threads work at
once, so the stages of all threads add up to about twice the time for a photo.
"""

import sys
import tempfile
import threading
import time
from collections import Counter
from functools import wraps
from pathlib import Path
from typing import Any

from extraction import PHOTOS, make_photos

from casmap.inference import folder, map_folder, mapper, saliency_map
from casmap.io import opener
from casmap.io.find import find_images
from casmap.io.memory import reuse_memory
from casmap.models import onnx_network

ROUNDS = 3
STAGES: list[tuple[str, Any, str]] = [
    ("open the photo, in another process", opener.Opener, "__call__"),
    ("resize it", mapper, "resize"),
    ("normalise it and run the network", mapper.SaliencyMapper, "masks"),
    ("  run the network", onnx_network.OnnxNetwork, "run"),
    ("make and write its map", folder, "save_map"),
    ("  resize the mask", mapper.Mapped, "saliency_map"),
    ("  find the box", saliency_map, "largest_box"),
    ("  encode the PNG", folder, "encode_view"),
    ("  write the file", folder, "write_aside"),
    ("sync, write the journal, rename (main thread)", map_folder, "record"),
]
wall: Counter[str] = Counter()
cpu: Counter[str] = Counter()
lock = threading.Lock()


def measure(label: str, owner: Any, name: str) -> None:
    """Add up the times of a function."""
    function = getattr(owner, name)

    @wraps(function)
    def measured(*arguments: Any, **options: Any) -> Any:
        start, used = time.perf_counter(), time.thread_time()
        try:
            return function(*arguments, **options)
        finally:
            with lock:
                wall[label] += time.perf_counter() - start
                cpu[label] += time.thread_time() - used

    setattr(owner, name, measured)


def main() -> None:
    """Extract masks a few times; print the stages of the last time."""
    reuse_memory()
    for stage in STAGES:
        measure(*stage)
    with tempfile.TemporaryDirectory(dir=".") as place:
        photos = Path(sys.argv[1]) if sys.argv[1:] else make_photos(Path(place) / "photos", PHOTOS)
        count = len(find_images([photos]))
        for turn in range(ROUNDS):
            wall.clear()
            cpu.clear()
            start = time.perf_counter()
            folder.extract(photos, out=Path(place) / f"maps-{turn}", views=("mask",))
            took = time.perf_counter() - start
    print(f"{'stage':<50}{'wall ms':>9}{'CPU ms':>9}")
    for label, _, _ in STAGES:
        print(f"{label:<50}{wall[label] / count * 1e3:9.2f}{cpu[label] / count * 1e3:9.2f}")
    print(f"{'a photo, with all threads':<50}{took / count * 1e3:9.2f}")


if __name__ == "__main__":
    main()
