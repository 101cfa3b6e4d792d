"""All studies on one page."""

import json

import pytest

from casmap.errors import UserError
from casmap.paper.claims import HOLDS, TIE, Claim
from casmap.paper.figure1 import run_figure1
from casmap.paper.outcome import Cell, Outcome, write_outcome
from casmap.paper.report import run_report


@pytest.fixture
def folder(tmp_path, quiet):
    claims = [Claim("FL is better than F", "41.3 and 53.5", "-2.0 [-3.0, -1.0]", HOLDS)]
    rows = [[Cell("(a)"), Cell("53", best=True)]]
    outcome = Outcome("table2", "Table 2", "text", ["", "LE"], rows, [{"a": 1}], {}, claims)
    write_outcome(outcome, tmp_path / "table2", quiet)
    write_outcome(run_figure1("test_resnet", 5, 64, tmp_path), tmp_path / "figure1", quiet)
    return tmp_path


def test_whatever_is_there_is_gathered(folder, quiet) -> None:
    assert [claim.says for claim in run_report(folder, quiet)] == ["FL is better than F"]
    page = (folder / "report.html").read_text()
    assert "Table 2" in page
    assert "Figure 1" in page
    assert page.count("data:image/png") == 1
    assert "conclusions 1 hold here, 0 do not" in page
    assert "Seeds tells" in page
    assert (folder / "report.csv").read_text().splitlines()[0] == "says,paper,here,verdict"
    assert "holds: FL is better than F. Paper: 41.3 and 53.5." in (folder / "report.md").read_text()


def test_table_1_is_a_study_as_the_others(folder, quiet) -> None:
    claims = [Claim("CAM has a higher LE than CASM", "48.1 and 36.1", "CASM - it +1.0 [-1.0, 3.0]", TIE)]
    rows = [[Cell("CAM"), Cell("30.0")]]
    outcome = Outcome("table1", "Table 1", "text", ["", "LE ↓"], rows, [{"row": "CAM"}], {}, claims)
    write_outcome(outcome, folder / "table1", quiet)
    told = run_report(folder, quiet)
    assert [claim.verdict for claim in told] == [TIE, HOLDS]
    assert [claim.says for claim in told] == ["CAM has a higher LE than CASM", "FL is better than F"]
    assert ">30.0</td>" in (folder / "report.html").read_text()


def test_a_table_1_of_0_1_0_asks_to_run_the_study_again(folder, quiet) -> None:
    le = {"its best way": "own alpha", "LE, alpha 1": {"value": 0.9}, "LE, own alpha": {"value": 0.3}}
    content = {"rows": {"CASM": le, "CAM, the true class": le}, "paired LE differences": {"CASM": {}}}
    (folder / "table1").mkdir()
    (folder / "table1" / "table1.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"table1\.json is damaged: run the study again, which takes little"):
        run_report(folder, quiet)


def test_a_folder_without_studies_is_one_sentence(tmp_path, quiet) -> None:
    with pytest.raises(UserError, match="There is no finished study in"):
        run_report(tmp_path, quiet)


@pytest.mark.parametrize("content", ["", "{}", '{"name": "table2"}', "[]"])
def test_a_damaged_file_is_named(folder, quiet, content) -> None:
    (folder / "table2" / "table2.json").write_text(content)
    with pytest.raises(UserError, match=r"table2\.json is damaged"):
        run_report(folder, quiet)
