"""The evidence that masks hold, from end to end with fewer and smaller pictures."""

import numpy as np
import pytest

from casmap.paper import scenes_evidence
from casmap.paper.outcome import FAILS, HOLDS, TIE, read_outcome, write_outcome
from casmap.paper.scenes_evidence import AREAS, MEASURES, evidence, run_evidence


@pytest.fixture
def out(tmp_path, shrink):
    shrink(scenes_evidence)
    return tmp_path / "evidence"


def test_photos_are_paired_every_seed_is_said_and_more_seeds_go_on(out, monkeypatch) -> None:
    outcome = run_evidence(out=out, seeds=[1])
    (alone,) = [r["value"] for r in outcome.records if r["measure"] == "LE" and r.get("of") == "CASM"]
    trained = {path: path.stat().st_mtime_ns for path in out.glob("seed-*/*/mapping.safetensors")}
    assert {path.parent.name for path in trained} == {"casm", "baseline"}
    outcome = run_evidence(out=out, seeds=[1, 2])
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    means = {
        name: [r["value"] for r in outcome.records if (r["measure"], r.get("of")) == ("LE", name)]
        for name in ("CASM", "Baseline")
    }
    assert [len(each) for each in means.values()] == [2, 2]
    assert means["CASM"][0] == alone
    (apart,) = [r for r in outcome.records if (r["measure"], r.get("of")) == ("LE", "CASM - Baseline")]
    assert apart["value low"] <= apart["value"] <= apart["value high"]
    assert apart["value"] == pytest.approx(np.mean(means["CASM"]) - np.mean(means["Baseline"]))
    assert [str(row[0]) for row in outcome.rows] == [*MEASURES, *AREAS]
    write_outcome(outcome, out)
    assert read_outcome(out / "evidence.json") == outcome
    monkeypatch.setattr(scenes_evidence, "measured", lambda *_: pytest.fail("measured again"))
    assert run_evidence(out=out, seeds=[1, 2]) == outcome


@pytest.mark.parametrize(("casm", "verdict"), [(0.6, HOLDS), (0.5, TIE), (0.4, FAILS)])
def test_more_of_the_evidence_is_a_higher_recall(casm, verdict) -> None:
    def of(recall: float):
        return [dict.fromkeys((*MEASURES, *AREAS), [0.25] * 50) | {"evidence recall": [recall] * 50}]

    outcome = evidence({"CASM": of(casm), "Baseline": of(0.5)}, [7])
    (claim,) = outcome.claims
    assert claim.verdict == verdict
    told = {str(row[0]): [str(cell) for cell in row[1:]] for row in outcome.rows}
    difference = f"{100 * (casm - 0.5):+.1f}"
    assert told["evidence recall"] == [
        f"{100 * casm:.1f} | {100 * casm:.1f}", "50.0 | 50.0", f"{difference} [{difference}, {difference}]",
    ]  # fmt: skip
    assert told["area"] == ["0.250 | 0.250", "0.250 | 0.250", ""]
