"""All studies on one page."""

import json

import pytest

from casmap.errors import UserError
from casmap.paper.claims import FAILS, HOLDS, TIE, Claim
from casmap.paper.figure1 import run_figure1
from casmap.paper.outcome import Cell, Outcome, write_outcome
from casmap.paper.report import run_report


def table1(difference_to_cam, difference_to_boxes):
    le = {"its best way": "own alpha", "LE, alpha 1": {"value": 0.9}, "LE, own alpha": {"value": 0.3}}
    names = ["CASM", "CAM, the true class", "CAM, the predicted class", "box regression", "whole picture"]
    apart = {
        "CAM, the true class": dict(zip(("value", "low", "high"), difference_to_cam, strict=True)),
        "CAM, the predicted class": dict(zip(("value", "low", "high"), difference_to_cam, strict=True)),
        "box regression": dict(zip(("value", "low", "high"), difference_to_boxes, strict=True)),
        "whole picture": {"value": -0.2, "low": -0.3, "high": -0.1},
    }
    return json.dumps({"rows": dict.fromkeys(names, le), "paired LE differences": {"CASM": apart}})


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


@pytest.mark.parametrize(
    ("cam", "boxes", "verdicts"),
    [
        ((-0.2, -0.3, -0.1), (0.2, 0.1, 0.3), [HOLDS, HOLDS]),  # the paper has CAM worse and box regression better
        ((0.2, 0.1, 0.3), (-0.2, -0.3, -0.1), [FAILS, FAILS]),
        ((0.0, -0.1, 0.1), (0.0, -0.1, 0.1), [TIE, TIE]),
    ],
)
def test_table_1_is_compared_with_the_papers_order(folder, quiet, cam, boxes, verdicts) -> None:
    (folder / "table1").mkdir()
    (folder / "table1" / "table1.json").write_text(table1(cam, boxes))
    told = run_report(folder, quiet)
    assert [claim.says for claim in told] == [  # each method once
        "CAM has a higher LE than CASM", "box regression has a lower LE than CASM", "FL is better than F",
    ]  # fmt: skip
    assert [claim.verdict for claim in told[:2]] == verdicts
    assert ">30.0</td>" in (folder / "report.html").read_text()  # each in the way that is best for it


def test_a_folder_without_studies_is_one_sentence(tmp_path, quiet) -> None:
    with pytest.raises(UserError, match="There is no finished study in"):
        run_report(tmp_path, quiet)


@pytest.mark.parametrize("content", ["", "{}", '{"name": "table2"}', "[]"])
def test_a_damaged_file_is_named(folder, quiet, content) -> None:
    (folder / "table2" / "table2.json").write_text(content)
    with pytest.raises(UserError, match=r"table2\.json is damaged"):
        run_report(folder, quiet)
