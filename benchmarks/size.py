"""The disk space of a core install in a fresh virtual environment: the total and its largest parts.

python benchmarks/size.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from bench import Ratio, report

ROOT = Path(__file__).parent.parent
SHOWN = 8


def main() -> None:
    """Count the bytecode that pip compiles, but not pip itself."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        before = megabytes(Path(folder))
        install_core(Path(folder))
        added = megabytes(Path(folder)) - before
        packages = next(Path(folder).glob("lib/python*/site-packages")).iterdir()
        sizes = {package.name: megabytes(package) for package in packages if package.is_dir()}
        largest = sorted(sizes, key=lambda name: -sizes[name])[:SHOWN]
        parts = ", ".join(f"{name} {sizes[name]:.0f}" for name in largest)
        report([Ratio("MB that a core install takes", added, added, added, "<= 300", parts)])


def install_core(environment: Path) -> Path:
    """Install casmap's core, which is all that extraction needs; returns the environment's Python."""
    python = environment / "bin" / "python"
    install = ["-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(ROOT)]
    subprocess.run([python, *install], check=True)
    return python


def megabytes(folder: Path) -> float:
    """The total size of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink()) / 1e6


if __name__ == "__main__":
    main()
