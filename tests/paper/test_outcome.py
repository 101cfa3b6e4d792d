"""What a study has found, as files."""

import csv
import io
import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from casmap.evaluation.evaluate import Number
from casmap.io.images import encode_png
from casmap.io.tabular import to_csv
from casmap.paper.outcome import (
    FAILS,
    HOLDS,
    TIE,
    Cell,
    Claim,
    Further,
    Outcome,
    read_outcome,
    verdict_below,
    write_outcome,
)

PICTURE = encode_png(np.zeros((8, 9, 3), np.uint8))


@pytest.fixture
def outcome() -> Outcome:
    return Outcome(
        "table9", "Table 9", "How it was measured.", ["", "LE | all"],
        [[Cell("CASM"), Cell("36.1", best=True)], [Cell("other"), Cell("40\n[38, 42]", unseen=True)]],
        [{"row": "CASM", "LE": 0.361}, {"row": "other", "LE": 0.4, "note": "a, b"}],
        {"": PICTURE, "-class <1>": PICTURE},
        [Claim("CASM is <better>", "36.1 and 53.5", "-1.0 [-2.0, -0.5]", HOLDS)],
        further=(Further("By size", ["", "small"], [[Cell("CASM"), Cell("99.0", best=True)]], "Small: below 0.1."),),
    )  # fmt: skip


def test_everything_is_written_and_read_back(outcome, tmp_path) -> None:
    assert write_outcome(outcome, tmp_path / "out") == tmp_path / "out" / "table9.html"
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"table9.csv", "table9.md", "table9.json", "table9.html", "table9.png", "table9-class <1>.png"}
    again = read_outcome(tmp_path / "out" / "table9.json")
    assert again == outcome
    assert [[(cell.best, cell.unseen) for cell in row] for row in again.rows] == [
        [(False, False), (True, False)], [(False, False), (False, True)],
    ]  # fmt: skip
    assert cv2.imread(str(tmp_path / "out" / "table9.png")).shape == (8, 9, 3)


def test_an_outcome_without_further_tables_is_read(outcome, tmp_path) -> None:
    """As earlier versions wrote it."""
    write_outcome(outcome, tmp_path)
    path = tmp_path / "table9.json"
    content = json.loads(path.read_text())
    del content["further"]
    path.write_text(json.dumps(content))
    assert read_outcome(path) == replace(outcome, further=())


def test_markdown_and_page_mark_the_best_and_the_unseen(outcome, tmp_path) -> None:
    write_outcome(outcome, tmp_path)
    text = (tmp_path / "table9.md").read_text()
    assert "| CASM | **36.1** |" in text
    assert "| other | *40<br>[38, 42]* |" in text
    assert "LE \\| all" in text
    assert "## By size\n\n|  | small |\n| --- | --- |\n| CASM | **99.0** |\n\nSmall: below 0.1.\n" in text
    page = (tmp_path / "table9.html").read_text()
    assert '<td class="best ">36.1</td>' in page
    assert '<td class="unseen">40\n[38, 42]</td>' in page
    assert "CASM is &lt;better&gt;" in page
    assert "<h2>By size</h2>" in page
    assert "Small: below 0.1." in page
    assert page.count("data:image/png") == 2


@pytest.mark.parametrize(("name", "first"), [("table9", "<table"), ("figure9", "<img")])
def test_the_page_of_a_figure_shows_it_before_its_numbers(outcome, tmp_path, name, first) -> None:
    write_outcome(replace(outcome, name=name, claims=()), tmp_path)
    page = (tmp_path / f"{name}.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<img") == 2
    assert min(("<table", "<img"), key=page.index) == first


def test_the_csv_has_a_column_for_each_key(outcome) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(outcome.records))))
    assert rows == [{"row": "CASM", "LE": "0.361", "note": ""}, {"row": "other", "LE": "0.4", "note": "a, b"}]


def test_numbers_are_kept_exactly(outcome, tmp_path) -> None:
    write_outcome(outcome, tmp_path)
    assert json.loads((tmp_path / "table9.json").read_text())["records"][0]["LE"] == 0.361


@pytest.mark.parametrize(
    ("intervals", "verdict"),
    [
        ([(-2, -1)], HOLDS), ([(-1, 1)], TIE), ([(1, 2)], FAILS), ([(-2, -1), (-1, 1)], TIE),
        ([(-2, -1), (1, 2)], FAILS), ([(-1, 0)], TIE), ([(0, 1)], TIE),
    ],
)  # fmt: skip
def test_a_claim_holds_if_all_differences_are_below_0_and_fails_if_one_is_above(intervals, verdict) -> None:
    assert verdict_below([Number((low + high) / 2, low, high) for low, high in intervals]) == verdict
