"""Plugins: one addition of each kind from another package appears in --help, in choices and in results."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from safetensors import safe_open

from casmap.annotations.format import FORMATS
from casmap.baselines import BASELINES
from casmap.models.backbones import BACKBONE_SOURCES
from casmap.training.scores import SCORES
from casmap.training.thinning import THINNINGS

# The package is the example of the guide: each file holds one addition.
GUIDE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
TOY = dict(re.findall(r"```python\n# casmap_toy/(\w+\.py)\n(.*?)```", GUIDE, re.S))
PLUGINS = tomllib.loads("\n".join(re.findall(r"```toml\n(.*?)```", GUIDE, re.S)))["project"]["entry-points"]


def test_the_guide_shows_one_addition_of_each_kind() -> None:
    kinds = (FORMATS, SCORES, THINNINGS, BASELINES, BACKBONE_SOURCES)
    assert set(PLUGINS) == {registry.plugins for registry in kinds}
    assert len(TOY) == len(kinds)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package, as pip would install it."""
    folder = tmp_path_factory.mktemp("site")
    package, about = folder / "casmap_toy", folder / "casmap_toy-1.0.dist-info"
    for made in (package, about):
        made.mkdir()
    (package / "__init__.py").write_text('"""Additions to casmap."""\n')
    for name, text in TOY.items():
        (package / name).write_text(text.lstrip())
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: casmap-toy\nVersion: 1.0\n")
    groups = [[f"[{group}]", *(f"{name} = {where}" for name, where in of.items())] for group, of in PLUGINS.items()]
    (about / "entry_points.txt").write_text("\n".join(line for group in groups for line in group) + "\n")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """The working directory of the commands, with a few scenes."""
    folder = tmp_path_factory.mktemp("data")
    command = [sys.executable, "-m", "casmap", "scenes", folder, "--options", "photos=16,classes=4,size=64"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def run(installed, data, environment):
    """Run a command with the package installed and return its output, in lines that are not wrapped."""
    paths = [str(installed), *filter(None, [environment.get("PYTHONPATH")])]
    environment = environment | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "400"}

    def casmap(*arguments: object) -> str:
        command = [sys.executable, "-m", "casmap", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=data)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return casmap


def test_a_format_is_written_and_read(run, data) -> None:
    assert "ticks" in run("annotate", "--help")
    run("annotate", "photos", "--format", "ticks", "--out", "made")
    assert len((data / "made" / "all.ticks").read_text().splitlines()) == 16
    output = run("data", "check", "photos", "--boxes", "made/all.ticks")
    assert "boxes from ticks" in output
    run("evaluate", "photos", "--boxes", "made/all.ticks", "--unseen", "--json", "rows.json")
    rows = json.loads((data / "rows.json").read_text())
    assert "casmap" in json.dumps(rows)


SMALL = [
    "--recipe",
    "quick",
    "--size",
    32,
    "--steps",
    6,
    "--first-steps",
    2,
    "--batch",
    4,
    "--threads",
    1,
    "--held-out",
    0,
]


def about(file: Path) -> dict:
    """The metadata of a mapping file."""
    with safe_open(str(file), framework="np") as opened:
        return json.loads(opened.metadata()["tree"])["about"]


def test_a_score_and_a_thinning_train(run, data) -> None:
    output = run("train", "--help")
    assert "surprise" in output
    assert "L4th" in output
    run("train", "photos", *SMALL, "--score", "surprise", "--thinning", "L4th", "--out", "scored")
    recipe = about(data / "scored" / "mapping.safetensors")["recipe"]
    assert (recipe["score"], recipe["thinning"]) == ("surprise", "L4th")


def test_a_backbone_is_trained_and_used(run, data) -> None:
    assert "borrowed" in run("train", "--help")
    run("train", "photos", *SMALL, "--backbone", "borrowed/test_resnet", "--out", "borrowing")
    mapping = data / "borrowing" / "mapping.safetensors"
    assert about(mapping)["backbone"] == "borrowed/test_resnet"
    run("extract", "photos", "--mapping", mapping, "--out", "maps")


def test_a_baseline_is_a_row_of_table1(run, data) -> None:
    assert "middle" in run("study", "table1", "--help")
    run("classifier", "photos", *SMALL, "--out", "first")
    options = ["--boxes", "boxes.csv", "--classifier", "first/classifier.safetensors", "--unseen", "--size", 32]
    output = run("study", "table1", "photos", *options, "--out", "table", "--only", "middle")
    assert "the middle" in output
    rows = json.loads((data / "table" / "table1.json").read_text())["rows"]
    assert "the middle" in json.dumps(rows)
