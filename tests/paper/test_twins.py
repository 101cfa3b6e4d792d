"""The paper's example, from end to end with fewer and smaller pictures."""

import pytest

from casmap.paper import twins as module
from casmap.paper.outcome import FAILS, HOLDS, TIE, read_outcome, write_outcome
from casmap.paper.twins import run_twins, twins


@pytest.fixture
def out(tmp_path, shrink):
    shrink(module)
    return tmp_path / "twins"


def test_each_half_is_measured_for_three_mappings_and_a_second_start_measures_nothing(out, monkeypatch) -> None:
    outcome = run_twins(out=out)
    assert [record["mapping"] for record in outcome.records] == ["CASM", "Baseline", "untrained"]
    for record in outcome.records:
        for half in ("left", "right"):
            assert 0 <= record[f"{half} low"] <= record[half] <= record[f"{half} high"] <= 1
        assert record["binary area"] == pytest.approx(record["area"], abs=0.02)
    assert write_outcome(outcome, out).read_text().count("data:image/png") == 3
    assert {path.name for path in out.glob("*.png")} == {
        f"twins-{name}.png" for name in ("CASM", "Baseline", "untrained")
    }
    assert read_outcome(out / "twins.json") == outcome
    monkeypatch.setattr(module, "measure", lambda *_: pytest.fail("measured again"))
    assert run_twins(out=out) == outcome


@pytest.mark.parametrize(("right", "verdict"), [(0.6, HOLDS), (0.3, TIE), (0.1, FAILS)])
def test_the_claim_is_about_the_half_that_f0_cannot_use(right, verdict) -> None:
    shares = {"binary area": 0.2, "accuracy without left": 0.1, "accuracy without right": 0.9}
    found = {
        "CASM": {"left": [0.5] * 20, "right": [right] * 20, **shares},
        "Baseline": {"left": [0.9] * 20, "right": [0.3] * 20, **shares},
    }
    outcome = twins(found, 1, {})
    assert outcome.claims[0].verdict == verdict
    whole = f"{100 * right:.1f}"
    assert [str(cell) for cell in outcome.rows[0]] == [
        "CASM", "50.0 [50.0, 50.0]", f"{whole} [{whole}, {whole}]", "0.200", "0.100", "0.900",
    ]  # fmt: skip
