"""This version reads the files of casmap 0.1.0, which files_of_0_1_0/make.py created."""

import json
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from casmap import SaliencyMapper
from casmap.models.files import load_classifier, load_mapping
from casmap.paper.figure2 import decoded
from casmap.training.recipes import QUICK, Recipe, read_recipe

OLD = Path(__file__).parents[1] / "files_of_0_1_0"
DATA = "scenes:classes=4,photos=32,size=48"
MAPPINGS = {"algorithm_1": "whole/casm.safetensors", "taught": "whole/mapping.safetensors", "onnx": "mapping.onnx"}


@pytest.fixture(scope="module")
def answers() -> dict[str, np.ndarray]:
    """Photos, and the output of 0.1.0 for them."""
    with np.load(OLD / "answers.npz") as kept:
        return dict(kept)


@pytest.mark.parametrize("kind", MAPPINGS)
def test_mappings_give_the_same_masks(kind, answers) -> None:
    mapper = SaliencyMapper.load(OLD / MAPPINGS[kind])
    masks = np.stack([found.mask for found in decoded(mapper, answers["photos"])])
    assert answers[kind].std() > 0.05  # not flat
    np.testing.assert_allclose(masks, answers[kind], rtol=0, atol=1e-5)


def test_a_classifier_gives_the_same_logits(answers) -> None:
    classifier, about = load_classifier(OLD / "whole" / "classifier.safetensors")
    with torch.no_grad():
        logits = classifier(torch.from_numpy(answers["photos"]).permute(0, 3, 1, 2) / 255)
    np.testing.assert_allclose(logits, answers["logits"], rtol=0, atol=1e-5)
    assert about["classes"] == [f"class-0{number}" for number in range(4)]


@pytest.mark.parametrize("stopped", ["stopped_in_algorithm_1", "stopped_in_second_stage"])
def test_a_resumed_run_ends_like_an_uninterrupted_one(stopped, casmap, tmp_path) -> None:
    out = tmp_path / "run"
    shutil.copytree(OLD / stopped, out)
    done = casmap("train", DATA, "--out", out, "--resume")
    assert done.code == 0, done.complained
    for name in ("casm.safetensors", "mapping.safetensors"):
        now, then = (load_mapping(folder / name) for folder in (out, OLD / "whole"))
        # Identical to the bit on the machine that created the files. Other processors add in another order, and each
        # of the few remaining steps amplifies the difference; a wrong step moves weights by the learning rate,
        # at least 0.001.
        for key, weights in then[0].state_dict().items():
            torch.testing.assert_close(now[0].state_dict()[key], weights, rtol=1e-4, atol=1e-4, msg=f"{name}: {key}")
        assert now[1]["classes"] == then[1]["classes"]
        numbers = {name: value for name, value in then[1]["training"].items() if not isinstance(value, str)}
        assert {name: now[1]["training"][name] for name in numbers} == pytest.approx(numbers, rel=1e-3)
    for log in ("log.csv", "taught-log.csv"):
        logs = [np.loadtxt(folder / log, delimiter=",", skiprows=1) for folder in (out, OLD / "whole")]
        np.testing.assert_allclose(*logs, rtol=1e-3, atol=1e-4)
    assert not list(out.glob("*checkpoint*"))


def test_a_finished_run_is_not_changed(casmap, tmp_path) -> None:
    out = tmp_path / "run"
    shutil.copytree(OLD / "whole", out)
    done = casmap("train", DATA, "--out", out, "--resume")
    assert done.code == 0, done.complained
    assert "This run is finished" in done.said
    assert (out / "mapping.safetensors").read_bytes() == (OLD / "whole" / "mapping.safetensors").read_bytes()


def test_a_recipe_file_with_every_option_of_0_1_0_is_accepted() -> None:
    """Options removed since then (compile, precision) have the value without effect."""
    assert read_recipe(str(OLD / "recipe.toml")) == QUICK


def test_a_saved_recipe_keeps_its_values() -> None:
    kept = json.loads((OLD / "whole" / "recipe.json").read_text())
    recipe = Recipe().replace(**kept)
    ours = {field.name for field in fields(Recipe)}
    assert {name: value for name, value in vars(recipe).items() if name in kept} == {
        name: value for name, value in kept.items() if name in ours
    }
