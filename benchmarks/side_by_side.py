"""Two versions of casmap in turns, benchmark by benchmark: a Markdown table of both.

python benchmarks/side_by_side.py CHECKOUT_OF_ANOTHER_VERSION [NAME ...]

Each version runs the benchmarks of its own checkout with its own package. Run nothing else at the same time.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
NAMES = ("cold", "map", "extraction", "training", "evaluation")


def main() -> None:
    """Run the named benchmarks, or all except the install size."""
    other = Path(sys.argv[1]).resolve()
    print(f"| what | {version(other)} | {version(HERE)} |\n|---|---|---|", flush=True)
    for name in sys.argv[2:] or NAMES:
        rows: dict[str, list[str]] = {}
        for place, checkout in enumerate((other, HERE)):
            for one in measured(checkout, name):
                cells = rows.setdefault(one["what"], ["", ""])
                cells[place] = f"{one['value']:.2f} [{one['low']:.2f}, {one['high']:.2f}], {one['times']}"
        for what, cells in rows.items():
            print(f"| {what} | {' | '.join(cells)} |", flush=True)


def measured(checkout: Path, name: str) -> list[dict[str, Any]]:
    """The ratios of one benchmark of one version."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "ratios.json"
        program = [sys.executable, str(checkout / "benchmarks" / f"{name}.py"), "--json", str(written)]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        subprocess.run(program, check=True, env=environment, stdout=sys.stderr, cwd=folder)
        found: list[dict[str, Any]] = json.loads(written.read_text())
        return found


def version(checkout: Path) -> str:
    """The version in the checkout's pyproject.toml."""
    text = (checkout / "pyproject.toml").read_text()
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("version"))


if __name__ == "__main__":
    main()
