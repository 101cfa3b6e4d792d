"""The wheel that `make wheel` builds holds everything that runs without a clone, and works where it is installed."""

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

import casmap

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory, long) -> Path:
    """The wheel, built by the command of `make wheel`; in the short form without the network, by this hatchling."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out]
    environment = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    done = subprocess.run(
        [*command, *([] if long else ["--no-build-isolation"]), ROOT], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return out / f"casmap-{casmap.__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def wheel(built) -> zipfile.ZipFile:
    return zipfile.ZipFile(built)


@pytest.fixture
def installed(built, tmp_path, environment, long):
    """Install the wheel into an empty environment; returns its command and the variables to run it with.

    `make soak` lets pip install the dependencies, with the extra serve. The short form needs no network: it takes them
    from the environment of the tests.
    """
    folder = tmp_path / "environment"
    environment = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "CASMAP_SOAK")}
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
    if long:
        wanted = ["--constraint", ROOT / "constraints.txt", f"{built}[serve]"]
    else:
        wanted = ["--no-deps", "--no-index", built]
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    subprocess.run([*pip, *wanted], check=True, env=environment, timeout=3600)
    where = [folder / "bin" / "python", "-c", "import casmap; print(casmap.__file__)"]
    assert subprocess.check_output(where, env=environment, text=True).startswith(str(folder))  # not the clone
    return folder / "bin" / "casmap", environment


def test_the_installed_wheel_extracts_annotates_and_serves(installed, tmp_path) -> None:
    command, environment = installed
    photo = ROOT / "src" / "casmap" / "web" / "static" / "example.jpg"
    for arguments in (
        ["extract", photo, "--everything"], ["annotate", photo, "--format", "coco", "--out", "labels"],
        ["--version"], ["page", "--help"],
    ):  # fmt: skip
        done = subprocess.run([command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    box = json.loads((tmp_path / "maps" / "boxes.jsonl").read_text())["box"]
    (annotation,) = json.loads((tmp_path / "labels" / "annotations.json").read_text())["annotations"]
    x, y, width, height = annotation["bbox"]
    assert [x, y, x + width, y + height] == box
    assert (tmp_path / "maps" / "example-cutout.png").stat().st_size > 0
    server = subprocess.Popen(
        [command, "serve", "--port", "0", "--no-browser"], cwd=tmp_path, env=environment, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[0]
        with urllib.request.urlopen(f"{address}api/map", photo.read_bytes(), timeout=60) as answer:
            assert json.load(answer)["box"] == box
        for file in ("", "app.js", "engine.js", "example.jpg"):
            with urllib.request.urlopen(f"{address}{file}", timeout=60) as answer:
                assert len(answer.read()) > 1000
    finally:
        server.terminate()
        assert server.wait(30) == 0


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
