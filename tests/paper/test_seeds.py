"""How much of a result is chance."""

import numpy as np
import pytest
from scipy.stats import t as student

from casmap.paper.outcome import FAILS, HOLDS, TIE
from casmap.paper.seeds import planned, run_seeds, seeds_outcome


def test_trainings_differ_by_their_seeds_and_share_f0(small, tmp_path) -> None:
    outcome = run_seeds(small, each=2, out=tmp_path)
    assert [(record["mapping"], record["seed"]) for record in outcome.records] == [
        ("CASM", 0), ("CASM", 1), ("Baseline", 0), ("Baseline", 1),
    ]  # fmt: skip
    assert len(list(tmp_path.glob("trainings/classifier-*"))) == 1
    mappings = {path.read_bytes() for path in tmp_path.glob("trainings/E-*/mapping.safetensors")}
    assert len(mappings) == 4


def test_mean_best_worst_and_welchs_test_by_hand(small) -> None:
    a, b = [0.10, 0.12, 0.11], [0.20, 0.26, 0.23]
    outcome = seeds_outcome({"CASM": a, "Baseline": b}, [0, 1, 2], 500, small)
    assert [[str(cell) for cell in row] for row in outcome.rows] == [
        ["CASM", "11.0", "10.0", "12.0", "1.0"],
        ["Baseline", "23.0", "20.0", "26.0", "3.0"],
    ]
    # variances of the means 0.01^2 / 3 and 0.03^2 / 3: t = -0.12 / sqrt(0.001 / 3), Welch-Satterthwaite 2.44 degrees
    error = np.sqrt((0.01**2 + 0.03**2) / 3)
    freedom = (0.01**2 + 0.03**2) ** 2 / ((0.01**4 + 0.03**4) / 2)
    chance = 2 * student.sf(0.12 / error, freedom)
    half = student.ppf(0.975, freedom) * error
    (claim,) = outcome.claims
    assert claim.here == (
        f"-12.0 [{100 * (-0.12 - half):+.1f}, {100 * (-0.12 + half):+.1f}], p = {chance:.2g}, 3 trainings each"
    )
    assert claim.verdict == HOLDS


@pytest.mark.parametrize(
    ("casm", "baseline", "verdict"),
    [
        ([0.3, 0.31], [0.1, 0.11], FAILS),
        ([0.1, 0.3], [0.2, 0.25], TIE),
        ([0.1, 0.11], [0.3, 0.31], HOLDS),
        ([0.2, 0.2], [0.2, 0.2], TIE),  # no variance: nothing to test with
    ],
)
def test_what_could_be_chance_is_not_settled(small, casm, baseline, verdict) -> None:
    assert seeds_outcome({"CASM": casm, "Baseline": baseline}, [0, 1], 500, small).claims[0].verdict == verdict


def test_the_plan_counts_all_trainings(small) -> None:
    first, *others = planned(small, photos=60, classes=20, each=5)
    assert (first.runs, first.maps, first.first_steps, first.steps) == (1, False, 4, 0)
    assert [(one.what, one.runs, one.steps) for one in others] == [("CASM", 5, 20), ("Baseline", 5, 20)]


def test_more_trainings_go_on_with_those_that_are_there(small, tmp_path) -> None:
    run_seeds(small, each=2, out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trainings/E-*/mapping.safetensors")}
    outcome = run_seeds(small, each=3, out=tmp_path)
    assert len(outcome.records) == 6
    assert {path: path.stat().st_mtime_ns for path in before} == before
