"""Table 2: score, sharing, thinning."""

import json
from dataclasses import replace

import pytest

from casmap.errors import UserError
from casmap.evaluation.report import compare
from casmap.mapper import SaliencyMapper
from casmap.model.files import load_classifier, load_mapping
from casmap.studies import table2 as module
from casmap.studies.claims import FAILS, HOLDS, TIE
from casmap.studies.outcome import write_outcome
from casmap.studies.table2 import VARIANTS, measure, run_table2, table2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


def test_the_rows_are_the_papers() -> None:
    names = [variant.name for variant in VARIANTS]
    assert names == [
        "(a) E Y F", "(b) E Y L", "(c) E Y FL", "(d) E Y L1000", "(e) E Y L100", "(f) C Y F", "(g) C Y L",
        "(h) C Y L100", "(i) E N F", "(j) E N L", "(k) E N L100",
    ]  # fmt: skip


def test_each_row_is_trained_as_it_says_from_one_classifier_and_a_second_start_trains_nothing(folder, small, quiet):
    outcome = run_table2(small, folder, quiet)
    trained = {path: path.stat().st_mtime_ns for path in folder.glob("trainings/*/mapping.safetensors")}
    assert len(trained) == len(VARIANTS)
    recipes = [load_mapping(path)[1]["recipe"] for path in trained]
    found = {(recipe["score"], recipe["encoder"], recipe["thinning"]) for recipe in recipes}
    assert found == {
        ("entropy" if v.score == "E" else "loss", "shared" if v.shared else "separate", v.thinning) for v in VARIANTS
    }
    (first,) = folder.glob("trainings/classifier-*/classifier.safetensors")
    beginnings = {load_classifier(path.parent / "classifier.safetensors")[1]["origin"] for path in trained}
    assert beginnings == {f"f(0) is the classifier given, {first.name}."}
    again = run_table2(small, folder, quiet)
    assert again == outcome
    assert {path: path.stat().st_mtime_ns for path in trained} == trained


def test_om_and_f1_are_left_out_where_the_encoder_tells_no_classes(folder, small, quiet) -> None:
    outcome = run_table2(small, folder, quiet)
    told = {str(row[0]): [str(cell) for cell in row[1:4]] for row in outcome.rows}
    for name, (om, le, f1) in told.items():
        separate = " N " in name
        assert (om == "-", le == "-", f1 == "-") == (separate, False, separate)


def test_numbers_are_those_of_an_evaluation(folder, small, quiet) -> None:
    run_table2(small, folder, quiet)
    part = json.loads((folder / "table2" / "parts" / "e.json").read_text())
    (path,) = folder.glob("trainings/E-shared-L100-*/mapping.safetensors")
    row = compare(small.held_out_photos(), {"e": SaliencyMapper.load(path)}).rows[0]
    for key in ("OM", "LE", "F1"):
        assert part[key] == pytest.approx(row.values[key].tolist())
    assert part["area"] == pytest.approx(float(row.values["area"].mean()), rel=1e-5)


def test_a_study_stopped_in_the_middle_ends_as_one_that_was_not(small, quiet, tmp_path, folder, monkeypatch):
    whole = run_table2(small, folder, quiet)
    calls = []

    def stopping(mapper, photos):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(mapper, photos)

    monkeypatch.setattr(module, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_table2(small, tmp_path, quiet)
    assert sorted(path.name for path in (tmp_path / "table2" / "parts").iterdir()) == ["a.json", "b.json"]
    assert not list((tmp_path / "table2").glob("table2.*"))
    outcome = run_table2(small, tmp_path, quiet)
    assert outcome.records == whole.records
    assert len(calls) == 3 + len(VARIANTS) - 2


def test_other_options_in_the_same_folder_are_refused(folder, small, quiet) -> None:
    run_table2(small, folder, quiet)
    with pytest.raises(UserError, match=r"table2 was begun with recipe.steps = 4, not 5"):
        run_table2(replace(small, recipe=small.recipe.replace(steps=5)), folder, quiet)


def values(errors: dict[str, float], photos: int = 200):
    """LE by letter, the same photos wrong in each: differences have the sign that the shares have."""
    found = {}
    for variant in VARIANTS:
        wrong = round(errors.get(variant.letter, 0.5) * photos)
        of = {"LE": [1.0] * wrong + [0.0] * (photos - wrong), "area": 0.25}
        found[variant] = of | ({"OM": of["LE"], "F1": [0.5] * photos} if variant.shared else {})
    return found


def test_the_papers_own_numbers_agree_with_all_of_its_conclusions(small) -> None:
    outcome = table2(values({variant.letter: variant.paper[1] / 100 for variant in VARIANTS}), small)
    assert [claim.verdict for claim in outcome.claims] == [HOLDS] * 4


def test_a_conclusion_fails_where_one_pair_says_the_contrary_and_is_open_where_none_says_anything(small) -> None:
    outcome = table2(values({"a": 0.5, "f": 0.2, "b": 0.3, "g": 0.5}), small)
    assert [claim.verdict for claim in outcome.claims] == [FAILS, HOLDS, TIE, HOLDS]
    assert "(a) - (f) +30.0" in outcome.claims[0].here
    assert "53.5 and 75.9 (a, f)" in outcome.claims[0].paper


def test_the_best_of_each_column_is_bold(small) -> None:
    outcome = table2(values({"e": 0.1}), small)
    best = {str(row[0]): [cell.best for cell in row[1:4]] for row in outcome.rows}
    assert best["(e) E Y L100"] == [True, True, True]  # all F1 are equal, and all the best
    assert best["(b) E Y L"] == [False, False, True]
    assert best["(k) E N L100"] == [False, False, False]


def test_its_files_are_written(folder, small, quiet) -> None:
    write_outcome(run_table2(small, folder, quiet), folder / "table2", quiet)
    for ending in ("csv", "md", "json", "html", "png"):
        assert (folder / "table2" / f"table2.{ending}").stat().st_size > 0
