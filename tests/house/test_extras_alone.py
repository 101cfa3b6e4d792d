"""Each extra alone: its commands run where nothing else is installed, and other commands name their extras.

`make test` links the installed packages that the extra requires into a virtual environment; `make soak` creates a fresh
environment and installs the extra with pip.
"""

import re
import shlex
import shutil
import subprocess
import sysconfig
import tomllib
import urllib.request
import venv
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path

import PIL.Image
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from casmap.annotations.format import FORMATS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
INSTALLED = Path(sysconfig.get_path("purelib"))
MINUTES = 60  # time limit for pip


def needed(extras: list[str]) -> set[str]:
    """The names of all packages that casmap with these extras requires, directly or indirectly."""
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    todo += [Requirement(f"casmap[{','.join(extras)}]")] * bool(extras)
    found = set()
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        if name == "casmap":
            todo += [Requirement(text) for extra in one.extras for text in EXTRAS[extra]]
            continue
        for extra in {"", *one.extras} - {extra for known, extra in found if known == name}:
            found.add((name, extra))
            with suppress(PackageNotFoundError):  # for other platforms
                asked = [Requirement(text) for text in requires(name) or ()]
                todo += [more for more in asked if more.marker is None or more.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def link(site: Path, wanted: set[str]) -> None:
    """Fill a folder with links to the files of these packages; a folder that other packages share is created."""
    owners, inside = defaultdict(set), defaultdict(set)
    for package in distributions(path=[str(INSTALLED)]):
        name = canonicalize_name(package.name)  # reads a file on each access
        for file in package.files or ():
            if file.parts[0] != ".." and file.suffix != ".pth":
                for depth in range(len(file.parts)):
                    inside[file.parts[:depth]].add(file.parts[: depth + 1])
                    owners[file.parts[: depth + 1]].add(name)

    def fill(folder: tuple[str, ...]) -> None:
        for path in inside[folder]:
            if owners[path] <= wanted:
                site.joinpath(*path).symlink_to(INSTALLED.joinpath(*path))
            elif owners[path] & wanted:
                site.joinpath(*path).mkdir()
                fill(path)

    fill(())
    (site / "casmap").symlink_to(ROOT / "src" / "casmap")


@pytest.fixture
def alone(tmp_path, environment, long):
    """Create an environment with some extras; returns a function that runs casmap in it."""
    folder = tmp_path / "environment"
    environment = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "CASMAP_SOAK")}
    python = folder / "bin" / "python"

    def make(*extras: str):
        venv.create(folder, with_pip=long, symlinks=True)
        if long:
            wanted = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
            install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wanted]
            subprocess.run(install, check=True, env=environment, timeout=MINUTES * 60)
        else:
            link(next(folder.glob("lib/python*/site-packages")), {*needed(list(extras)), "casmap"})
        return run

    def run(command: str, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [python, "-m", "casmap", *shlex.split(command)],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == code, f"casmap {command}\n{done.stdout}{done.stderr}"
        return done

    def started(command: str) -> subprocess.Popen:
        called = [python, "-u", "-m", "casmap", *shlex.split(command)]
        return subprocess.Popen(called, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)

    run.started = started
    yield make
    shutil.rmtree(folder, ignore_errors=True)  # torch and its dependencies take gigabytes


SCENES = "scenes data --options photos=16,classes=4,size=48"
DATA = "data/photos --boxes data/boxes.csv"
SMALL = "recipe: quick\nsize: 32\nsteps: 2\nfirst_steps: 2\nbatch: 4\nthreads: 1\nheld_out: 0\n"
STUDY = "scenes:classes=20,photos=40,size=32 --test scenes:classes=20,photos=20,size=32 --recipe small.yaml"


def needs(done: subprocess.CompletedProcess, extras: str) -> None:
    """Check the one-line error that names the missing extras."""
    assert done.stderr.startswith("casmap: "), done.stderr
    assert done.stderr.count("\n") == 1
    assert re.search(rf"casmap\[{extras}\] @ file:|pip install [^:]*\[{extras}\]'", done.stderr), done.stderr


@pytest.fixture
def small(tmp_path) -> None:
    """A recipe that takes seconds."""
    (tmp_path / "small.yaml").write_text(SMALL)


def test_the_packages_of_an_extra_are_found() -> None:
    assert {"numpy", "rich", "typer"} <= needed([])
    assert not {"torch", "fastapi", "matplotlib", "ray", "pydicom", "pytest"} & needed([])
    assert {"torch", "sympy", "matplotlib"} <= needed(["studies"])  # sympy: torch needs it
    assert not {"captum", "ray", "fastapi"} & needed(["studies"])


def test_every_extra_is_tested() -> None:
    """Except those without commands: torchray adds baselines to table1; docs and test are for developers."""
    tests = Path(__file__).read_text()
    assert {extra for extra in EXTRAS if f'"{extra}")' not in tests} <= {"torchray", "docs", "test"}


def test_core_alone(alone, tmp_path, small) -> None:
    run = alone()
    run(SCENES)
    fine = ["--help", "--version", "doctor", "doctor --json", f"data check {DATA}", "extract data/photos --everything"]
    fine += [f"annotate data/photos --format {form} --out {form}" for form in FORMATS.names]
    for command in (*fine, f"evaluate {DATA} --unseen", "study --help", "train --help", "serve --help"):
        run(command)
    (tmp_path / "scan.dcm").write_bytes(bytes(128) + b"DICM")
    (tmp_path / "phone.heic").write_bytes(bytes(4) + b"ftypheic")
    missing = {
        "train data/photos": "train,offline",
        "classifier data/photos": "train,offline",
        "export mapping.safetensors": "train",
        "check mapping.safetensors data/photos": "train",
        f"correct mapping.safetensors {DATA}": "train",
        "demo": "train,demo",
        f"study figure2 {STUDY}": "studies",
        f"study table1 {DATA}": "peers",
        "study report": "studies",
        f"evaluate {DATA} --mapping mapping.safetensors --unseen": "train",
        "serve --no-browser": "serve",
        "data shard data/photos shards": "scale",
        "extract data/photos --ray --out many": "scale",
        "extract scan.dcm --out scans": "dicom",
        "extract phone.heic --out phone": "heic",
    }
    (tmp_path / "mapping.safetensors").touch()
    for command, extras in missing.items():
        needs(run(command, code=2), extras)


def test_train_alone(alone, small) -> None:
    run = alone("train")
    run(SCENES)
    run("train data/photos --recipe small.yaml --out run")
    run("classifier data/photos --recipe small.yaml --out first")
    for command in (
        "export run/mapping.safetensors",
        "extract data/photos --mapping run/mapping.safetensors",
        f"evaluate {DATA} --mapping run/mapping.safetensors --mapping run/mapping.onnx",
        "check run/mapping.safetensors data/photos --classifier first/classifier.safetensors",
        f"correct run/mapping.safetensors {DATA} --steps 2",
        f"study figure2 {STUDY}",
        "study report",
    ):
        run(command)
    missing = {
        f"study statistics {STUDY} --out other": "studies",
        "study figure1 --backbone test_resnet": "studies",
        f"study table1 {DATA} --mapping run/mapping.safetensors --classifier first/classifier.safetensors": "peers",
        "serve --no-browser": "serve",
        "data shard data/photos shards": "scale",
        "train data/photos --recipe photos --out pretrained": "offline",
        "demo": "demo",
    }
    for command, extras in missing.items():
        needs(run(command, code=2), extras)


def test_offline_with_train(alone, small) -> None:
    run = alone("train", "offline")
    run(SCENES)
    run("train data/photos --recipe small.yaml --pretrained --backbone lite0 --out run")


def test_serve_alone(alone, tmp_path) -> None:
    run = alone("serve")
    run(SCENES)
    photo = next((tmp_path / "data" / "photos").rglob("*.*")).read_bytes()
    form = b'--x\r\nContent-Disposition: form-data; name="photos"; filename="a.png"\r\n\r\n' + photo + b"\r\n--x--\r\n"
    process = run.started("serve --port 0 --no-browser")
    try:
        address = process.stdout.readline().split()[0]
        asked = [urllib.request.Request(address + page) for page in ("", "api/openapi.json", "api/photos")]
        asked.append(urllib.request.Request(address + "api/map", photo))
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        asked.append(urllib.request.Request(address + "api/batch", form, kind))
        for request in asked:
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
                assert answer.read()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_dicom_alone(alone, tmp_path) -> None:
    from pydicom.data import get_testdata_file

    shutil.copy(get_testdata_file("CT_small.dcm"), tmp_path / "scan.dcm")
    alone("dicom")("extract scan.dcm --out scans --window 40 400")
    assert list((tmp_path / "scans").glob("*mask*"))


def test_cvat_alone(alone, tmp_path) -> None:
    (tmp_path / "program.py").write_text(
        "import PIL.Image\nfrom cvat_cli._internal.common import FunctionLoader\n"
        "function = FunctionLoader('casmap.integrations.cvat', None, {'label': 'cat'}).load()\n"
        "print(function.spec.labels[0].name)\n"
    )
    run = alone("cvat")
    python = next((tmp_path / "environment").glob("bin/python"))
    run("doctor")
    assert subprocess.check_output([python, "program.py"], cwd=tmp_path, text=True, env={}) == "cat\n"


def test_heic_alone(alone, tmp_path) -> None:
    from pillow_heif import from_pillow

    from_pillow(PIL.Image.new("RGB", (64, 48))).save(tmp_path / "phone.heic")
    alone("heic")("extract phone.heic --out phone")
    assert list((tmp_path / "phone").glob("*mask*"))


def test_demo_alone(alone) -> None:
    run = alone("demo")
    run(SCENES)
    run("extract data/photos")
    needs(run("demo", code=2), "train,demo")


def test_studies_alone(alone, small, long) -> None:
    run = alone("studies")
    run(SCENES)
    for command in (
        f"study seeds {STUDY} --trainings 2",
        f"study statistics {STUDY}",
        "study figure1 --backbone test_resnet --size 64",
        "study report",
        *(f"study {name} --paper --dry-run" for name in ("table2", "table3", "fewshot", "figure3")[: 4 if long else 1]),
    ):
        run(command)
    needs(run(f"study table1 {DATA} --classifier test_resnet --unseen", code=2), "peers")


def test_peers_alone(alone, small) -> None:
    run = alone("peers")
    run(SCENES)
    run("classifier data/photos --recipe small.yaml --out first")
    table1 = f"study table1 {DATA} --classifier first/classifier.safetensors --unseen --size 32"
    run(f"{table1} --only CAM --only gradient --only Score-CAM --only LRP")
    needs(run(f"{table1} --only RISE --out other", code=2), "torchray")


def test_scale_alone(alone, small) -> None:
    run = alone("scale")
    run(SCENES)
    run("data shard data/photos shards")
    run("train shards --recipe small.yaml --out run")
    run("extract data/photos --ray --workers 1 --out many")
