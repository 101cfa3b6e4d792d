"""The wheel that `make wheel` builds holds everything that runs without a clone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import casmap

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built without the network: hatchling must be installed."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out]
    done = subprocess.run([*command, ROOT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(out / f"casmap-{casmap.__version__}-py3-none-any.whl")


def test_the_wheel_holds_every_file_of_the_package(wheel) -> None:
    package = ROOT / "src" / "casmap"
    files = {f"casmap/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    wanted = {name for name in files if "__pycache__" not in name}
    assert {"casmap/py.typed", "casmap/weights/casmap.onnx", "casmap/web/static/index.html"} <= wanted
    assert wanted - set(wheel.namelist()) == set()


def test_the_wheel_has_the_command_and_the_extras(wheel) -> None:
    about = f"casmap-{casmap.__version__}.dist-info"
    assert "casmap = casmap.cli.main:main" in wheel.read(f"{about}/entry_points.txt").decode()
    assert "Provides-Extra: serve" in wheel.read(f"{about}/METADATA").decode()
    assert any(name.startswith(f"{about}/licenses/") for name in wheel.namelist())
