"""Start-up time: --help, and the first map of a new process compared with ONNX Runtime's own start.

python benchmarks/cold.py
"""

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from bench import Ratio, in_turns, ratio, report
from size import install

from casmap.data.scenes import Scenes
from casmap.inference.mapper import SHIPPED
from casmap.io.images import encode_jpeg

ROUNDS = 9
RUNTIME = """
import numpy, onnxruntime, sys
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {"images": numpy.zeros((1, 3, 224, 224), numpy.float32)})
"""
MAP = """
import sys
from casmap import SaliencyMapper
SaliencyMapper.load(sys.argv[1])(sys.argv[2]).box()
"""


def main() -> None:
    """Every turn is a new process, in an environment with casmap's core dependencies only."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        run = partial(start, install(Path(folder)))
        photo = Path(folder) / "photo.jpg"
        photo.write_bytes(encode_jpeg(Scenes(photos=1, size=384).image(0)))
        seconds = in_turns(
            {
                "help": lambda: run("-m", "casmap", "--help"),
                "runtime": lambda: run("-c", RUNTIME, str(SHIPPED)),
                "map": lambda: run("-c", MAP, str(SHIPPED), str(photo)),
            },
            ROUNDS,
        )
    help_seconds = float(np.median(seconds["help"]))
    report(
        [
            Ratio(
                "seconds of casmap --help",
                help_seconds,
                min(seconds["help"]),
                max(seconds["help"]),
                "<= 0.4",
                "seconds, not a ratio",
            ),
            ratio("first map of a process / ONNX Runtime's own start", seconds["map"], seconds["runtime"], "<= 1.5"),
        ]
    )


def start(python: Path, *arguments: str) -> None:
    """Run a process to its end."""
    subprocess.run([python, *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    main()
