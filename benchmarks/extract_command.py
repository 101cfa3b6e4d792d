"""`casmap extract` of a folder as a whole command, two versions in turns: the ratio of their times in each round.

python benchmarks/extract_command.py CHECKOUT_OF_ANOTHER_VERSION [PHOTOS]

PHOTOS: a photo or a folder. Without it: 300 scenes of 512 x 384 pixels as JPEG files.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench import in_turns, ratio, report
from extraction import make_photos

from casmap.io.find import find_images

PHOTOS, ROUNDS = 300, 5
HERE = Path(__file__).parents[1]


def main() -> None:
    """Each round starts one process of each version, on the same photos."""
    with tempfile.TemporaryDirectory() as folder:
        given = [Path(argument).resolve() for argument in sys.argv[2:3] if not argument.startswith("-")]
        photos = given[0] if given else make_photos(Path(folder) / "photos", PHOTOS)
        count = len(find_images([photos]))
        versions = {"other": Path(sys.argv[1]).resolve(), "this": HERE}
        seconds = in_turns({name: partial(extract, photos, at) for name, at in versions.items()}, ROUNDS)
    what = f"casmap extract, {count} photos, this version / the other"
    report([ratio(what, seconds["this"], seconds["other"], "<= 1.05", count)])


def extract(photos: Path, checkout: Path) -> None:
    """Extract all photos into a temporary folder."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "casmap", "extract", str(photos), "--out", out]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run(command, check=True, capture_output=True, env=environment)


if __name__ == "__main__":
    main()
