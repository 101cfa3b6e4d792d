"""A request to `casmap serve`, two versions in turns: the ratio of their times in each round.

python benchmarks/request.py CHECKOUT_OF_ANOTHER_VERSION
"""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import cv2
from bench import Ratio, in_turns, ratio, report

from casmap.data.scenes import Scenes
from casmap.io.images import encode_jpeg

REQUESTS, ROUNDS = 5, 9
SIZES = ((512, 384), (4000, 3000))
HERE = Path(__file__).parents[1]


def main() -> None:
    """Each round sends the same photo to both servers, one request after another."""
    with ExitStack() as servers:
        addresses = {
            name: servers.enter_context(served(checkout))
            for name, checkout in {"other": Path(sys.argv[1]).resolve(), "this": HERE}.items()
        }
        report([compare(addresses, *size) for size in SIZES])


def compare(addresses: dict[str, str], width: int, height: int) -> Ratio:
    """Requests with a JPEG photo of this size."""
    photo = encode_jpeg(cv2.resize(Scenes(photos=1, size=128).image(0), (width, height)))
    seconds = in_turns({name: partial(ask, at, photo) for name, at in addresses.items()}, ROUNDS)
    what = f"POST /api/map, {width} x {height} pixels, this version / the other"
    return ratio(what, seconds["this"], seconds["other"], "<= 1.05", REQUESTS)


def ask(address: str, photo: bytes) -> None:
    """Request the map of a photo several times."""
    for _ in range(REQUESTS):
        with urllib.request.urlopen(f"{address}api/map", photo) as answer:
            answer.read()


@contextmanager
def served(checkout: Path) -> Iterator[str]:
    """Start the server of a version; gives its address."""
    command = [sys.executable, "-m", "casmap", "serve", "--port", "0", "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0]
        process.terminate()


if __name__ == "__main__":
    main()
