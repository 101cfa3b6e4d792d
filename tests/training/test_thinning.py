"""Thin: the paper's four kinds, and a custom one."""

import numpy as np
import pytest
import torch

from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.training.samples import Samples
from casmap.training.thinning import THINNINGS, Thinning, find_thinning


@pytest.mark.parametrize(
    ("name", "first", "last", "period"),
    [
        ("F", True, False, None),
        ("L", False, True, None),
        ("FL", True, True, None),
        ("L100", True, True, 100),
        ("L1000", True, True, 1000),
        ("L7", True, True, 7),
    ],
)
def test_the_thinnings_of_the_paper(name, first, last, period) -> None:
    thinning = find_thinning(name)
    assert (thinning.keeps_first, thinning.keeps_last) == (first, last)
    kept = [step for step in range(1, 3001) if thinning.keeps and thinning.keeps(step)]
    assert kept == ([] if period is None else list(range(period, 3001, period)))


def test_a_period_goes_before_the_number_in_the_name() -> None:
    keeps = find_thinning("L100", 3).keeps
    assert [step for step in range(1, 10) if keeps(step)] == [3, 6, 9]


@pytest.mark.parametrize("name", ["", "f", "LF", "L0", "L-1", "L1.5", "L 100", "100", "L100 ", "F100", "FL2"])
def test_no_other_thinning_is_known(name) -> None:
    with pytest.raises(UserError, match="There is no thinning"):
        find_thinning(name)


@pytest.mark.parametrize(("name", "copies"), [("F", 0), ("L", 0), ("FL", 1), ("L100", 29)])
def test_how_many_copies_there_may_be(name, copies) -> None:
    assert find_thinning(name).copies(30) == copies


def test_the_evicted_copy_is_drawn_uniformly() -> None:
    thinning = find_thinning("L100")
    drawn = [thinning.evict(3, np.random.default_rng(seed)) for seed in range(300)]
    assert all(70 < drawn.count(place) < 130 for place in range(3))  # 100 each, give or take 3.7 sd


def test_one_decorated_function_is_a_thinning(monkeypatch) -> None:
    """Powers of two stay, and the oldest makes room."""
    monkeypatch.setattr(THINNINGS, "_registered", dict(THINNINGS._registered))

    @THINNINGS.register("doubling")
    def doubling(_period: int | None) -> Thinning:
        return Thinning(True, True, lambda step: step & (step - 1) == 0, lambda _copies, _chance: 0)

    assert THINNINGS.names[-1] == "doubling"
    classifier = Classifier("test_resnet", 2)
    samples = Samples(classifier, find_thinning("doubling"), limit=4)
    for k in range(1, 10):
        torch.nn.init.constant_(classifier.network.fc.bias, k)
        samples.add(classifier)
        samples.thin()
    assert [int(kept["network.fc.bias"].max()) for kept in samples.kept] == [2, 4, 8]  # f(0) and f(1) made room
