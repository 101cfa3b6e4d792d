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
from typing import Any

from bench import Ratio

NAMES = ("size", "cold", "map", "extraction", "edges_cost", "training", "evaluation")
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
KEPT = Path(__file__).parent / "measured.json"
BEGIN, END = "<!-- measured: make bench -->\n", "<!-- end -->"
LIBRARIES = ("torch", "onnxruntime", "opencv-python-headless", "numpy")


def main() -> None:
    """Those that are named, or all; the page keeps what others measured before."""
    kept: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in sys.argv[1:] or NAMES:
        print(f"-- {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told.json"
            subprocess.run([sys.executable, Path(__file__).parent / f"{name}.py", "--json", told], check=True)
            kept[name] = {"where": where(), "ratios": json.loads(told.read_text())}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(before + BEGIN + tables(kept) + END + after)


def where() -> str:
    """When, and on what, it was measured."""
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    machine = f"{os.cpu_count()} cores ({processor()})"
    return f"{datetime.date.today()}, {machine}, Python {platform.python_version()}, {versions}"


def tables(kept: dict[str, dict[str, Any]]) -> str:
    """All ratios, a table for each run on the same machine and day."""
    lines = []
    for place in dict.fromkeys(one["where"] for one in kept.values()):
        lines += [f"{place}:", "", "| what | ratio | target | both times, per photo |", "|---|---|---|---|"]
        for one in (Ratio(**row) for run in kept.values() if run["where"] == place for row in run["ratios"]):
            bar = {None: "", True: f"{one.bar}: met", False: f"**{one.bar}: missed**"}[one.met]
            lines.append(f"| {one.what} | {one.value:.2f} [{one.low:.2f}, {one.high:.2f}] | {bar} | {one.times} |")
        lines.append("")
    return "\n".join(lines)


def processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
