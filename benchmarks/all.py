"""Run every benchmark, one process at a time, and write what was measured into docs/benchmarks.md: make bench."""

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from bench import Ratio

NAMES = ("size", "cold", "map", "extraction", "training", "evaluation")
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: make bench -->\n", "<!-- end -->"
LIBRARIES = ("torch", "onnxruntime", "opencv-python-headless", "numpy")


def main() -> None:
    """Those that are named, or all."""
    found: list[Ratio] = []
    for name in sys.argv[1:] or NAMES:
        print(f"-- {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told.json"
            subprocess.run([sys.executable, Path(__file__).parent / f"{name}.py", "--json", told], check=True)
            found += [Ratio(**one) for one in json.loads(told.read_text())]
    if not sys.argv[1:]:  # the page is of one run
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(before + BEGIN + table(found) + END + after)


def table(found: list[Ratio]) -> str:
    """All ratios, and on what they were measured."""
    lines = [
        f"{datetime.date.today()}, {os.cpu_count()} cores ({processor()}), Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
        + ". Medians over rounds in which all ways take turns, with 95 % intervals.",
        "",
        "| what | ratio | bar | times for a photo |",
        "|---|---|---|---|",
    ]
    for one in found:
        bar = {None: "", True: f"{one.bar}: met", False: f"**{one.bar}: missed**"}[one.met]
        lines.append(f"| {one.what} | {one.value:.2f} [{one.low:.2f}, {one.high:.2f}] | {bar} | {one.times} |")
    return "\n".join(lines) + "\n"


def processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
