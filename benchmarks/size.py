"""The disk space of a core install in a fresh virtual environment: the total and its largest parts.

python benchmarks/size.py            # casmap's core
python benchmarks/size.py --others   # also other tools, as their own instructions install them
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from bench import Ratio, report

ROOT = Path(__file__).parent.parent
CORE = ["--constraint", str(ROOT / "constraints.txt"), str(ROOT)]
OTHERS = {"rembg": ["rembg[cpu]"], "ultralytics": ["ultralytics"], "pytorch-grad-cam": ["grad-cam"]}
SHOWN = 8


def main() -> None:
    """Count the bytecode that pip compiles, but not pip itself."""
    rows = [measure("a core install", CORE, "<= 300")]
    if "--others" in sys.argv:
        rows += [measure(name, wanted) for name, wanted in OTHERS.items()]
    report(rows)


def measure(name: str, wanted: list[str], bar: str = "") -> Ratio:
    """The MB that packages take in an environment of their own."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        before = megabytes(Path(folder))
        install(Path(folder), wanted)
        added = megabytes(Path(folder)) - before
        packages = next(Path(folder).glob("lib/python*/site-packages")).iterdir()
        sizes = {package.name: megabytes(package) for package in packages if package.is_dir()}
        largest = sorted(sizes, key=lambda name: -sizes[name])[:SHOWN]
        parts = ", ".join(f"{name} {sizes[name]:.0f}" for name in largest)
        return Ratio(f"MB that {name} takes", added, added, added, bar, parts)


def install(environment: Path, wanted: list[str] = CORE) -> Path:
    """Install packages, by default casmap's core, which is all that extraction needs; returns the Python."""
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return python


def megabytes(folder: Path) -> float:
    """The total size of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink()) / 1e6


if __name__ == "__main__":
    main()
