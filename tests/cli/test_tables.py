"""What is printed of studies, checks and corrections."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from casmap.cli import tables
from casmap.cli.tables import (
    print_check,
    print_correction,
    print_plan,
    print_report,
    print_training,
    show_outcome,
    table_of,
)
from casmap.paper.outcome import HOLDS, Cell, Claim, Further, Outcome
from casmap.paper.plan import Planned
from casmap.paper.report import Report
from casmap.tools.check import OWN, CheckResult
from casmap.tools.correct import Agreement, CorrectionResult
from casmap.training.held_out import advice
from casmap.training.loop import TrainingResult
from casmap.training.recipes import QUICK

NEXT = "Next: casmap extract PHOTOS --mapping new/mapping.safetensors"
CLAIM = Claim("CASM is <better>", "36.1 and 53.5", "-1.0 [-2.0, -0.5]", HOLDS)


@pytest.fixture
def told(monkeypatch):
    """All that was printed; the terminal may be made narrower."""
    console = Console(file=io.StringIO(), width=200, markup=False, highlight=False)
    monkeypatch.setattr(tables, "console", console)
    return console


def outcome(**more) -> Outcome:
    rows = [[Cell("CASM"), Cell("36.1", best=True), Cell("[x]", unseen=True)]]
    return Outcome("table9", "Table 9", "How.", ["", "LE", "all"], rows, [{"LE": 0.361}], {}, [CLAIM], **more)


def test_an_outcome_is_told_with_its_claims_and_written(told, tmp_path) -> None:
    show_outcome(outcome(), tmp_path)
    said = told.file.getvalue()
    for words in ("Table 9", "36.1", "[x]", "CASM is <better>: holds (-1.0 [-2.0, -0.5])", f"{tmp_path}/table9.html"):
        assert words in said
    assert (tmp_path / "table9.json").exists()


@pytest.mark.parametrize(("width", "wide"), [(159, False), (160, True)])
def test_a_narrow_terminal_gets_the_summary_and_is_told_where_the_rest_is(told, tmp_path, width, wide) -> None:
    told.width = width
    show_outcome(outcome(summary=(["", "in short"], [[Cell("CASM"), Cell("36")]])), tmp_path)
    said = told.file.getvalue()
    assert ("in short" in said) != wide
    assert ("36.1" in said) == wide
    assert ("table9.md" in said) != wide
    assert "How." in said  # what the columns mean
    assert "in short" not in (tmp_path / "table9.json").read_text()


@pytest.mark.parametrize("width", [80, 200])
def test_further_tables_are_told_below_the_first_and_on_a_narrow_terminal_in_short(told, tmp_path, width) -> None:
    told.width = width
    tables = [Further("By size", ["", "small"], [[Cell("CASM"), Cell("99.0\n[98.0, 99.9]")]], "Small: below 0.1.")]
    show_outcome(outcome(summary=(["", "in short"], [[Cell("CASM"), Cell("36")]]), further=tables), tmp_path)
    said = told.file.getvalue()
    assert said.index("CASM") < said.index("By size") < said.index("99.0") < said.index("Small: below 0.1.")
    assert ("[98.0, 99.9]" in said) == (width == 200)
    assert "[98.0, 99.9]" in (tmp_path / "table9.md").read_text()


def test_the_best_are_bold_and_the_unseen_in_italics() -> None:
    table = table_of("", ["", "", ""], outcome().rows)
    assert [str(next(iter(column.cells)).style) for column in table.columns] == ["", "bold", "italic dim"]


def test_the_plan_is_told_with_its_sum(told) -> None:
    print_plan([Planned("f(0)", QUICK, 2000, 40, first=True, maps=False), Planned("CASM", QUICK, 2000, 40)])
    rows = [line.split("│")[1:5] for line in told.file.getvalue().splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["f(0)", "1", "600", "0"], ["CASM", "1", "0", "450"], ["total", "2", "600", "450"],
    ]  # fmt: skip


def test_a_report_is_told_with_its_sum(told) -> None:
    print_report(Report([CLAIM], Path("studies/report.html")))
    for words in ("36.1 and 53.5", "Of 1 of the paper's conclusions 1 hold here", "Page: studies/report.html"):
        assert words in told.file.getvalue()


@pytest.mark.parametrize(
    ("known", "words"),
    [(True, "predicted class is correct"), (False, "predicted class is the same as for the whole photo")],
)
def test_a_check_tells_what_classifiers_see_and_warns(told, known, words) -> None:
    shares = {"whole": 1.0, "masked-in": 0.0, "masked-out": 0.5, "inpainted": 1.0}
    values = {version: np.full(4, share) for version, share in shares.items()}
    masks = np.random.default_rng(0).random((4, 56, 56)).astype(np.float32)
    print_check(CheckResult(list("abcd"), np.zeros(4, np.int64), ["x"], {OWN: values}, values, masks, known))
    said = told.file.getvalue()
    assert "4 photos: how often" in said
    assert words in said
    assert "50.0 [50.0, 50.0]" in said
    assert "Warning: From the masked-in photos the classifier is correct in 0%" in said


@pytest.mark.parametrize(
    ("verdict", "last"),
    [
        ("good", ["Verdict: good", "Next: casmap extract PHOTOS --mapping new/mapping.safetensors"]),
        (
            "doubtful",
            ["Next: casmap extract PHOTOS --mapping new/mapping.safetensors", "Warning: x", "Verdict: doubtful"],
        ),
        ("failed", ["Warning: x", "Verdict: failed"]),
    ],
)
def test_a_training_ends_with_what_to_do_next_unless_the_verdict_is_not_good(told, verdict, last) -> None:
    reasons = () if verdict == "good" else ("x",)
    measured = {"gain": {"centred": [0.4, 0.1, 1.0]}, "gain on photos": 16}
    result = TrainingResult(
        Path("new/mapping.safetensors"), verdict, 0.312, (), "", 0, 80.0, 0.0, 1, 1, reasons, measured
    )
    print_training(result, 90.0)
    said = ["", "Mapping: new/mapping.safetensors"]
    said += ["  took 1.5 minutes; masks cover 31% of a photo on average; all numbers: summary.json"]
    assert told.file.getvalue().splitlines() == said + last


def test_a_wide_interval_of_few_photos_is_explained(told) -> None:
    measured = {"gain": {"centred": [0.4, -0.1, 1.0], "random": [1.0, 0.5, 1.5]}, "gain on photos": 16}
    for number, one in enumerate(("doubtful", "failed", "good")):
        print_training(TrainingResult(Path("a"), one, 0.3, (), "", 0, 0.0, 0.0, 1, 1, (), measured), 90.0)
        assert told.file.getvalue().count("Only 16 photos were measured") == min(number + 1, 2)
    assert "run casmap check on other photos, or hold more out (held_out=0.3)." in told.file.getvalue()
    assert "took" not in told.file.getvalue()  # nothing was trained
    assert advice("doubtful", measured | {"gain on photos": 50}) is None
    assert advice("failed", measured | {"gain": {"random": [-1.0, -2.0, -0.5]}}) is None
    assert advice("failed", {}) is None


def test_a_correction_is_told_by_class_the_worst_first(told) -> None:
    before = Agreement(["a", "b", "c"], ["cat", "dog", "cat"], np.array([0.2, 0.1, 0.4]))
    after = Agreement(["a", "b", "c"], ["cat", "dog", "cat"], np.array([0.5, 0.7, 0.5]))
    print_correction(CorrectionResult(before, after, Path("new/mapping.safetensors")))
    said = told.file.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:5]] for line in said.splitlines() if "│" in line]
    assert rows == [["dog", "1", "10.0", "70.0"], ["cat", "2", "30.0", "50.0"], ["all", "3", "23.3", "56.7"]]
    assert "Mapping: new/mapping.safetensors" in said
    print_correction(CorrectionResult(before))
    assert said.count("Mapping:") == told.file.getvalue().count("Mapping:") == 1


def test_a_correction_that_gains_nothing_says_so(told, capsys) -> None:
    before = Agreement(["a", "b"], ["cat", "dog"], np.array([0.2, 0.1]))
    better = Agreement(["a", "b"], ["cat", "dog"], np.array([0.2, 0.2]))
    print_correction(CorrectionResult(before, better, Path("new/mapping.safetensors")))
    assert capsys.readouterr().err == ""
    print_correction(CorrectionResult(before, before, Path("new/mapping.safetensors")))
    assert "The IoU did not rise: train for more steps (--steps)" in capsys.readouterr().err
