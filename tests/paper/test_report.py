"""All studies on one page."""

import json

import pytest

from casmap.errors import UserError
from casmap.paper.figure1 import run_figure1
from casmap.paper.outcome import HOLDS, TIE, Cell, Claim, Outcome, write_outcome
from casmap.paper.report import run_report


@pytest.fixture
def folder(tmp_path):
    claims = [Claim("FL is better than F", "41.3 and 53.5", "-2.0 [-3.0, -1.0]", HOLDS)]
    rows = [[Cell("(a)"), Cell("53", best=True)]]
    outcome = Outcome("table2", "Table 2", "text", ["", "LE"], rows, [{"a": 1}], {}, claims)
    write_outcome(outcome, tmp_path / "table2")
    write_outcome(run_figure1(backbone="test_resnet", classes=5, size=64, out=tmp_path), tmp_path / "figure1")
    return tmp_path


def test_whatever_is_there_is_gathered(folder) -> None:
    assert [claim.statement for claim in run_report(folder).claims] == ["FL is better than F"]
    page = (folder / "report.html").read_text()
    assert "Table 2" in page
    assert "Figure 1" in page
    assert page.count("data:image/png") == 1
    assert "conclusions 1 hold here, 0 do not" in page
    assert "Seeds shows how much trainings vary" in page
    assert (folder / "report.csv").read_text().splitlines()[0] == "statement,paper,here,verdict"
    assert "holds: FL is better than F. Paper: 41.3 and 53.5." in (folder / "report.md").read_text()


def test_table_1_is_gathered_as_any_other_and_comes_first(folder) -> None:
    claims = [Claim("CAM has a higher LE than CASM", "48.1 and 36.1", "CASM - row +1.0 [-2.0, +4.0]", TIE)]
    rows = [[Cell("CAM"), Cell("30.0")]]
    write_outcome(Outcome("table1", "Table 1", "", ["", "LE"], rows, [{"a": 1}], {}, claims), folder / "table1")
    report = run_report(folder)
    assert [claim.verdict for claim in report.claims] == [TIE, HOLDS]
    assert report.summary == "Of 2 of the paper's conclusions 1 hold here, 0 do not, and 1 is not settled."
    page = report.page.read_text()
    assert ">30.0</td>" in page
    assert page.index("FL is better than F") < page.index("CAM has a higher LE")  # what holds comes first


@pytest.mark.parametrize("name", ["table1", "evidence", "twins"])
def test_a_file_of_0_1_0_is_made_again(folder, name) -> None:
    """Then these three had shapes of their own."""
    (folder / name).mkdir()
    (folder / name / f"{name}.json").write_text(json.dumps({"rows": {}, "paired LE differences": {}}))
    with pytest.raises(UserError, match=rf"{name}\.json is damaged: run the study again"):
        run_report(folder)


def test_a_folder_without_studies_is_one_sentence(tmp_path) -> None:
    with pytest.raises(UserError, match="There is no finished study in"):
        run_report(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", '{"name": "table2"}', "[]"])
def test_a_damaged_file_is_named(folder, content) -> None:
    (folder / "table2" / "table2.json").write_text(content)
    with pytest.raises(UserError, match=r"table2\.json is damaged"):
        run_report(folder)


def test_a_claim_of_0_2_0_is_read(folder) -> None:
    """Its statement was called "says"."""
    path = folder / "table2" / "table2.json"
    path.write_text(path.read_text().replace('"statement"', '"says"'))
    assert [claim.statement for claim in run_report(folder).claims] == ["FL is better than F"]
