"""One addition of each kind, from a package that casmap knows nothing of: in --help, in choices and in results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

# The files of the package: each holds one addition, as its author would write it.
TOY = {
    "ticks.py": '''
"""An annotation format: a line for each object, its photo, edges and class."""

from collections import defaultdict

from casmap.annotations.format import Format
from casmap.annotations.things import boxed
from casmap.annotations.types import Annotations, Known
from casmap.io.atomic import write_whole


def recognises(path):
    return path.suffix == ".ticks"


def read(path, root, names):
    things = defaultdict(list)
    for line in path.read_text().splitlines():
        name, *numbers, label = line.split("|")
        if (photo := names.find(name)) is not None:
            things[photo].append(boxed(label, numbers))
    return Annotations("boxes from ticks", lambda photo: Known(things.get(photo, ())))


def write(photos, labels, out, options):
    rows = ["|".join(map(str, [photo.name, *one.box, one.label])) for photo in photos for one in photo.objects]
    write_whole(out / "all.ticks", "\\n".join(rows))
    return out / "all.ticks"


format = Format(recognises, read, write)
''',
    "surprise.py": '''
"""A score: how unlikely the label is."""

from casmap.training.scores import Score


def surprise(logits, labels):
    return 1 - logits.softmax(dim=1).gather(1, labels[:, None])[:, 0]


score = Score(surprise, "S", lambda_r=10.0)
''',
    "fourth.py": '''
"""A thinning: the first, the last and every fourth."""

from casmap.training.thinning import Thinning


def every_fourth(period):
    return Thinning(keeps_first=True, keeps_last=True, keeps=lambda step: step % 4 == 0)
''',
    "middle.py": '''
"""A baseline: what is in the middle."""

import torch

from casmap.baselines import Baseline


def middle(classifier, images, classes):
    across = torch.linspace(-1, 1, images.shape[-1]) ** 2
    return (2 - across[:, None] - across).expand(len(images), -1, -1)


baseline = Baseline("the middle", "Nobody 2026", middle)
''',
    "borrowed.py": '''
"""A backbone source: timm's under other names."""

from casmap.models.backbones import BACKBONE_SOURCES, BackboneSource


def build(name, classes, pretrained):
    return BACKBONE_SOURCES["timm"].build(name.removeprefix("borrowed/"), classes, pretrained)


source = BackboneSource(owns=lambda name: name.startswith("borrowed/"), build=build)
''',
}
ENTRY_POINTS = """
[casmap.formats]
ticks = casmap_toy.ticks:format

[casmap.scores]
surprise = casmap_toy.surprise:score

[casmap.thinnings]
L4th = casmap_toy.fourth:every_fourth

[casmap.baselines]
middle = casmap_toy.middle:baseline

[casmap.backbones]
borrowed = casmap_toy.borrowed:source
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package, as pip would have put it there."""
    folder = tmp_path_factory.mktemp("site")
    package, about = folder / "casmap_toy", folder / "casmap_toy-1.0.dist-info"
    for made in (package, about):
        made.mkdir()
    (package / "__init__.py").write_text('"""Additions to casmap."""\n')
    for name, text in TOY.items():
        (package / name).write_text(text.lstrip())
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: casmap-toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A folder in which commands run, with a few scenes in it."""
    folder = tmp_path_factory.mktemp("data")
    command = [sys.executable, "-m", "casmap", "scenes", folder, "--options", "photos=16,classes=4,size=64"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def run(installed, data, environment):
    """Run a command where the package is installed; gives its words, on lines so long that none is broken."""
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
    told = run("data", "check", "photos", "--boxes", "made/all.ticks")
    assert "boxes from ticks" in told
    run("evaluate", "photos", "--boxes", "made/all.ticks", "--unseen", "--json", "rows.json")
    rows = json.loads((data / "rows.json").read_text())
    assert "casmap" in json.dumps(rows)


SMALL = ["--recipe", "quick", "--size", 32, "--steps", 6, "--first-steps", 2, "--batch", 4, "--threads", 1]


def about(file: Path) -> dict:
    """What a mapping says about itself."""
    with safe_open(str(file), framework="np") as opened:
        return json.loads(opened.metadata()["tree"])["about"]


def test_a_score_and_a_thinning_train(run, data) -> None:
    said = run("train", "--help")
    assert "surprise" in said
    assert "L4th" in said
    run("train", "photos", *SMALL, "--score", "surprise", "--thinning", "L4th", "--out", "scored")
    recipe = about(data / "scored" / "mapping.safetensors")["recipe"]
    assert (recipe["score"], recipe["thinning"]) == ("surprise", "L4th")


def test_a_backbone_is_trained_and_used(run, data) -> None:
    assert "borrowed" in run("train", "--help")
    run("train", "photos", *SMALL, "--backbone", "borrowed/test_resnet", "--out", "borrowing")
    mapping = data / "borrowing" / "mapping.safetensors"
    assert about(mapping)["backbone"] == "borrowed/test_resnet"
    run("extract", "photos", "--mapping", mapping, "--out", "maps")


def test_a_baseline_stands_in_table1(run, data) -> None:
    assert "middle" in run("study", "table1", "--help")
    run("classifier", "photos", *SMALL, "--out", "first")
    options = ["--boxes", "boxes.csv", "--classifier", "first/classifier.safetensors", "--unseen", "--size", 32]
    told = run("study", "table1", "photos", *options, "--out", "table", "--only", "middle")
    assert "the middle" in told
    rows = json.loads((data / "table" / "table1.json").read_text())["rows"]
    assert "the middle" in json.dumps(rows)
