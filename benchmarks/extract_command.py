"""`casmap extract` of a folder as a whole command, two versions in turns: the ratio of their times in each round.

python benchmarks/extract_command.py CHECKOUT_OF_ANOTHER_VERSION
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench import in_turns, ratio, report
from extraction import make_photos

PHOTOS, ROUNDS = 300, 5
HERE = Path(__file__).parents[1]


def main() -> None:
    """Each round starts one process of each version, on the same JPEG files of 512 x 384 pixels."""
    with tempfile.TemporaryDirectory() as folder:
        make_photos(Path(folder) / "photos", PHOTOS)
        versions = {"other": Path(sys.argv[1]).resolve(), "this": HERE}
        seconds = in_turns({name: partial(extract, Path(folder), at) for name, at in versions.items()}, ROUNDS)
    report([ratio("casmap extract, this version / the other", seconds["this"], seconds["other"], "", PHOTOS)])


def extract(folder: Path, checkout: Path) -> None:
    """Extract all photos into a temporary folder."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "casmap", "extract", str(folder / "photos"), "--out", out]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run(command, check=True, capture_output=True, env=environment)


if __name__ == "__main__":
    main()
