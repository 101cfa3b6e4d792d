"""Basic statistics of masks."""

from dataclasses import replace

import numpy as np
import pytest

from casmap.evaluation.mask_statistics import mask_entropy, mean_mask, total_variation
from casmap.paper.outcome import FAILS, HOLDS, TIE
from casmap.paper.statistics import AREA, ENTROPY, TOTAL_VARIATION, run_statistics, statistics
from casmap.paper.trainings import Entries


@pytest.fixture
def setting(small):
    return replace(small, data="scenes:classes=3,photos=12,size=32", test="scenes:classes=3,photos=20,size=32")


@pytest.fixture
def entries(setting, tmp_path):
    return Entries.open("statistics", setting, mappings=None, out=tmp_path)


def test_statistics_are_those_of_the_masks(setting, entries, tmp_path) -> None:
    outcome = run_statistics(setting, out=tmp_path)
    pictures = np.stack([entries.photos.image(index) for index in range(len(entries.photos))])
    for record, mapper in zip(outcome.records, entries.mappers.values(), strict=True):
        masks, _ = mapper.masks(pictures)
        assert record[TOTAL_VARIATION] == pytest.approx(total_variation(masks).mean(), rel=1e-4)
        assert record[ENTROPY] == pytest.approx(mask_entropy(masks).mean(), rel=1e-4)
        assert record["spread of volume"] == pytest.approx(mean_mask(masks).std(), rel=1e-3, abs=1e-6)
    assert [record["mapping"] for record in outcome.records] == ["CASM", "Baseline"]
    assert outcome.figures[""].startswith(b"\x89PNG")


def of(variation: float, entropy: float, areas: tuple[float, float]):
    shaken = np.tile([0.99, 1.01], 50)
    return {
        TOTAL_VARIATION: (variation * shaken).tolist(),
        ENTROPY: (entropy * shaken).tolist(),
        AREA: np.tile(areas, 50).tolist(),
    }


def test_the_papers_numbers_agree_with_its_conclusions() -> None:
    found = {"CASM": of(2500, 0.05, (0.31, 0.69)), "Baseline": of(7000, 0.21, (0.36, 0.64))}
    outcome = statistics(found, "ImageNet", papers=True)
    assert [claim.verdict for claim in outcome.claims] == [HOLDS] * 3
    assert "CASM - Baseline: -4,500" in outcome.claims[0].here
    assert "CASM - Baseline: +0.050" in outcome.claims[2].here  # 0.19 and 0.14


def test_turned_round_they_do_not_and_equal_ones_settle_nothing() -> None:
    a, b = of(2500, 0.05, (0.31, 0.69)), of(7000, 0.21, (0.36, 0.64))
    assert [claim.verdict for claim in statistics({"CASM": b, "Baseline": a}, "", True).claims] == [FAILS] * 3
    assert [claim.verdict for claim in statistics({"CASM": a, "Baseline": a}, "", True).claims] == [TIE] * 3


def test_the_paper_says_nothing_of_other_mappings() -> None:
    found = {"mine": of(2500, 0.05, (0.31, 0.69)), "yours": of(2500, 0.05, (0.31, 0.69))}
    assert statistics(found, "", papers=False).claims == []


def test_only_casm_before_baseline_is_what_the_paper_speaks_of(entries) -> None:
    assert entries.papers
    turned = replace(entries, mappers=dict(reversed(entries.mappers.items())))
    assert not turned.papers
