"""The start of a process, two versions in turns: --help, the first map, and `casmap extract` of one photo.

python benchmarks/start.py CHECKOUT_OF_ANOTHER_VERSION

The ratios of wall time and of CPU time, which a busy machine changes less. An environment with casmap's core
dependencies only shows what most users wait for.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import Ratio, ratio, report
from cold import MAP

from casmap.data.scenes import Scenes
from casmap.inference.mapper import SHIPPED
from casmap.io.images import encode_jpeg

ROUNDS = 15
HERE = Path(__file__).parents[1]


def main() -> None:
    """Each round starts one process of each version; the version that starts first alternates."""
    versions = [HERE, Path(sys.argv[1]).resolve()]
    with tempfile.TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.jpg"
        photo.write_bytes(encode_jpeg(Scenes(photos=1, size=384).image(0)))
        commands = {
            "casmap --help": ["-m", "casmap", "--help"],
            "first map of a process": ["-c", MAP, str(SHIPPED), str(photo)],
            "casmap extract of one photo": ["-m", "casmap", "extract", str(photo), "--out", "maps"],
        }
        found: list[Ratio] = []
        for what, command in commands.items():
            times: dict[Path, list[tuple[float, float]]] = {version: [] for version in versions}
            for turn in range(ROUNDS + 1):
                for version in versions[:: 1 if turn % 2 else -1]:
                    times[version].append(seconds(command, version))
            for place, kind in enumerate(("wall", "CPU")):
                this, other = ([one[place] for one in times[version][1:]] for version in versions)  # after a warm-up
                found.append(ratio(f"{what}, {kind} time, this version / the other", this, other))
    report(found)


def seconds(command: list[str], checkout: Path) -> tuple[float, float]:
    """The wall time and the CPU time of a process and its own processes, in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have bytecode, too
    with tempfile.TemporaryDirectory() as folder:
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment, cwd=folder)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
