"""Scores and thinnings by name: known without torch, and more of them from other packages."""

import json
import os
import subprocess
import sys

import pytest
import torch

from casmap.errors import UserError
from casmap.training.lambda_r import paper_lambda_r
from casmap.training.recipes import PAPER
from casmap.training.scores import SCORES

TOY = """
from casmap.training.scores import Score
from casmap.training.thinning import Thinning

def margin(logits, labels):
    return -logits.gather(1, labels[:, None])[:, 0]

MARGIN = Score(margin, "M", lambda_r=3.0)

def doubling(period):
    return Thinning(keeps_first=True, keeps_last=True, keeps=lambda step: step & (step - 1) == 0)
"""
ENTRY_POINTS = "[casmap.scores]\nmargin = toy_scores:MARGIN\n[casmap.thinnings]\ndoubling = toy_scores:doubling\n"


def test_the_scores_have_the_letters_of_table_2() -> None:
    assert {name: SCORES[name].letter for name in SCORES} == {
        "activation": "A", "doubt": "D", "entropy": "E", "loss": "C",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["doubt", "entropy", "loss"])
def test_a_gain_is_one_number_for_each_image(name) -> None:
    assert SCORES[name].gain(torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])).shape == (5,)


def test_an_unknown_score_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="score must be one of activation, doubt, entropy, loss, not 'accuracy'"):
        PAPER.replace(score="accuracy")


def test_names_are_known_without_torch() -> None:
    code = "from casmap.training.recipes import CHOICES; import sys; print(*CHOICES['score'], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["activation", "doubt", "entropy", "loss", "False"]


@pytest.fixture
def with_toys(tmp_path) -> dict[str, str]:
    """An environment in which a package with a score and a thinning is installed."""
    site = tmp_path / "site"
    about = site / "toy_scores-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "toy_scores.py").write_text(TOY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-scores\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def _casmap(environment: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "casmap", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_score_and_a_thinning_of_another_package_are_trained_with(with_toys, tmp_path) -> None:
    text = _casmap(with_toys, "train", "--help")
    assert "margin" in text
    assert "doubling" in text
    data, out = "scenes:classes=4,photos=16,size=32", tmp_path / "run"
    small = ["--size=32", "--batch=8", "--steps=5", "--first-steps=1", "--threads=1", "--device=cpu", "--lambda-r=3"]
    _casmap(
        with_toys,
        "train",
        data,
        "--recipe=quick",
        "--held-out=0",
        *small,
        "--score=margin",
        "--thinning=doubling",
        f"--out={out}",
    )
    assert (json.loads((out / "recipe.json").read_text())["score"]) == "margin"
    assert (out / "mapping.safetensors").exists()
    rows = (out / "log.csv").read_text().splitlines()
    assert [row.split(",")[-1] for row in rows[1:]] == ["3.0", "4.0", "4.0", "5.0", "5.0"]  # copies of f(1), f(2), f(4)


def test_its_lambda_is_where_the_search_for_an_area_starts(with_toys) -> None:
    code = "from casmap.training.lambda_r import paper_lambda_r; print(paper_lambda_r('margin', 'F'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=with_toys, check=True)
    assert float(done.stdout) == 3.0
    assert paper_lambda_r("doubt", "F") == paper_lambda_r("entropy", "F")
