"""The registry of baselines: one file each, known by name before torch is loaded; others come from outside."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import casmap.baselines
from casmap.baselines import BASELINES, Baseline, find_baseline
from casmap.errors import UserError

MODULES = sorted(path.stem for path in Path(casmap.baselines.__file__).parent.glob("[a-z]*.py"))
TOY = '''
"""A baseline that marks the upper half, whatever is there."""

import torch

from casmap.baselines import Baseline


def upper_half(classifier, images, classes):
    maps = torch.zeros(len(images), 4, 4)
    maps[:, :2] = 1
    return maps


TOY = Baseline("Upper half", "nobody 2026", upper_half)
'''


def test_each_file_registers_the_baseline_of_its_name_and_has_a_test() -> None:
    assert BASELINES.names == [name.replace("_", "-") for name in MODULES]
    assert len(MODULES) == 19
    for name, module in zip(BASELINES.names, MODULES, strict=True):
        assert isinstance(BASELINES[name], Baseline)
        assert (BASELINES[name].explain is None) != (BASELINES[name].learn is None)
        assert Path(__file__).with_name(f"test_{module}.py").exists()


@pytest.mark.parametrize("name", BASELINES.names)
def test_the_name_in_tables_is_understood_too(name: str) -> None:
    shown = BASELINES[name].name
    for said in (name, name.upper(), shown, shown.lower(), shown.replace(" ", "-"), f" {shown}  "):
        assert find_baseline(said) is BASELINES[name]


def test_an_unknown_one_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"^There is no baseline 'camel': choose from adversarial-localization, .*\.$"):
        find_baseline("camel")


def test_names_are_known_without_torch(fresh) -> None:
    asked = "import sys; from casmap.baselines import BASELINES; print(len(BASELINES.names), 'torch' in sys.modules)"
    assert fresh(start=asked).said.split() == ["19", "False"]


def test_one_of_another_package_is_in_the_help_and_in_the_results(mapping, knowing, tmp_path, environment) -> None:
    (tmp_path / "toy_baseline.py").write_text(TOY)
    about = tmp_path / "toy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[casmap.baselines]\nupper-half = toy_baseline:TOY\n")
    paths = [str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])]

    def run(*arguments) -> str:
        command = [sys.executable, "-m", "casmap", "study", "table1", *map(str, arguments)]
        environ = environment | {"PYTHONPATH": ":".join(paths)}
        return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path, check=True).stdout

    assert "upper-half" in "".join(run("--help").replace("│", " ").split())
    run(
        "scenes:photos=8,classes=4,size=64,seed=2", "--size", 64, "--only", "upper half",
        "--mapping", mapping, "--classifier", knowing, "--out", "table",
    )  # fmt: skip
    rows = {row["row"]: row for row in json.loads((tmp_path / "table" / "table1.json").read_text())["records"]}
    assert rows["Upper half, the true class"]["area"] == pytest.approx(0.5)
    assert rows["Upper half, the true class"]["paper"] == "nobody 2026"
