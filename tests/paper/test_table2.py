"""Table 2: score, sharing, thinning."""

import json
from dataclasses import replace

import pytest

from casmap.data.scenes import Scenes
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.evaluation.table import compare
from casmap.inference.mapper import SaliencyMapper
from casmap.models.files import load_classifier, load_mapping
from casmap.paper import table2 as module
from casmap.paper.outcome import FAILS, HOLDS, TIE, write_outcome
from casmap.paper.table2 import VARIANTS, measure, planned, run_table2, table2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


def test_the_rows_are_the_papers() -> None:
    names = [variant.name for variant in VARIANTS]
    assert names == [
        "(a) E Y F", "(b) E Y L", "(c) E Y FL", "(d) E Y L1000", "(e) E Y L100", "(f) C Y F", "(g) C Y L",
        "(h) C Y L100", "(i) E N F", "(j) E N L", "(k) E N L100",
    ]  # fmt: skip


def test_each_row_is_trained_as_it_says_from_one_classifier_and_a_second_start_trains_nothing(folder, small):
    outcome = run_table2(small, out=folder)
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
    again = run_table2(small, out=folder)
    assert again == outcome
    assert {path: path.stat().st_mtime_ns for path in trained} == trained


def test_om_and_f1_are_left_out_where_the_encoder_tells_no_classes(folder, small) -> None:
    outcome = run_table2(small, out=folder)
    told = {str(row[0]): [str(cell) for cell in row[1:4]] for row in outcome.rows}
    for name, (om, le, f1) in told.items():
        separate = " N " in name
        assert (om == "-", le == "-", f1 == "-") == (separate, False, separate)


def test_numbers_are_those_of_an_evaluation(folder, small) -> None:
    run_table2(small, out=folder)
    (file,) = (folder / "table2" / "parts").glob("e-*.json")
    part = json.loads(file.read_text())
    (path,) = folder.glob("trainings/E-shared-L100-*/mapping.safetensors")
    row = compare(small.held_out_photos(), {"e": SaliencyMapper.load(path)}).central_crop[0]
    for key in ("OM", "LE", "F1"):
        assert part[key] == pytest.approx(row.values[key].tolist())
    assert part["area"] == pytest.approx(float(row.values["area"].mean()), rel=1e-5)


def test_a_study_stopped_in_the_middle_ends_as_one_that_was_not(small, tmp_path, folder, monkeypatch):
    whole = run_table2(small, out=folder)
    calls = []

    def stopping(mapper, photos):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(mapper, photos)

    monkeypatch.setattr(module, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_table2(small, out=tmp_path)
    assert sorted(path.name[:2] for path in (tmp_path / "table2" / "parts").iterdir()) == ["a-", "b-"]
    assert not list((tmp_path / "table2").glob("table2.*"))
    outcome = run_table2(small, out=tmp_path)
    assert outcome.records == whole.records
    assert len(calls) == 3 + len(VARIANTS) - 2


def test_other_options_in_the_same_folder_are_refused(folder, small) -> None:
    run_table2(small, out=folder)
    with pytest.raises(UserError, match=r"table2 was started with recipe.steps = 4, not 5"):
        run_table2(replace(small, recipe=small.recipe.replace(steps=5)), out=folder)


def values(errors: dict[str, float], f1: dict[str, float] | None = None, photos: int = 2000):
    """LE and OM by letter, the same photos wrong in each: differences have the sign that the shares have."""
    found = {}
    for variant in VARIANTS:
        wrong = round(errors.get(variant.letter, 0.5) * photos)
        of = {"LE": [1.0] * wrong + [0.0] * (photos - wrong), "area": 0.25}
        found[variant] = of
        if variant.shared:
            found[variant] = of | {"OM": of["LE"], "F1": [(f1 or {}).get(variant.letter, 0.5)] * photos}
    return found


def test_the_papers_own_numbers_agree_with_all_of_its_conclusions(small) -> None:
    errors = {variant.letter: variant.paper[1] / 100 for variant in VARIANTS}
    f1 = {variant.letter: variant.paper[2] / 100 for variant in VARIANTS if variant.paper[2] is not None}
    outcome = table2(values(errors, f1), small)
    assert [claim.verdict for claim in outcome.claims] == [HOLDS] * 7


def test_a_conclusion_fails_where_one_pair_says_the_contrary_and_is_open_where_one_says_nothing(small) -> None:
    outcome = table2(values({"a": 0.5, "f": 0.2, "b": 0.3, "g": 0.5}), small)
    assert [claim.verdict for claim in outcome.claims] == [FAILS, FAILS, TIE, TIE, TIE, FAILS, TIE]
    assert "(a) - (f) +30.0" in outcome.claims[0].here
    assert "53.5 and 75.9 (a, f)" in outcome.claims[0].paper
    assert "80.8" in outcome.claims[1].paper  # the official metric has its own numbers


def test_the_best_of_each_column_is_bold(small) -> None:
    outcome = table2(values({"e": 0.1}), small)
    best = {str(row[0]): [cell.best for cell in row[1:4]] for row in outcome.rows}
    assert best["(e) E Y L100"] == [True, True, True]  # all F1 are equal, and all the best
    assert best["(b) E Y L"] == [False, False, True]
    assert best["(k) E N L100"] == [False, False, False]


def test_its_files_are_written(folder, small) -> None:
    write_outcome(run_table2(small, out=folder), folder / "table2")
    for ending in ("csv", "md", "json", "html", "png"):
        assert (folder / "table2" / f"table2.{ending}").stat().st_size > 0


def test_a_photo_less_to_measure_on_is_another_study(folder, small) -> None:
    run_table2(small, out=folder)
    with pytest.raises(UserError, match="was started with test = "):
        run_table2(replace(small, test=small.test.replace("photos=40", "photos=39")), out=folder)


def test_photos_that_changed_under_the_same_name_are_noticed(tmp_path, small) -> None:
    write_photos(Scenes(classes=2, photos=6, size=32), tmp_path / "data")
    setting = replace(small, data="scenes:classes=2,photos=8,size=32", test=str(tmp_path / "data" / "photos"))
    setting = replace(setting, masks=tmp_path / "data" / "masks")
    run_table2(setting, out=tmp_path / "out")
    next((tmp_path / "data" / "photos").rglob("*.png")).unlink()
    with pytest.raises(UserError, match=r"was started with photos to measure on = '6 photos, .*', not '5 photos, "):
        run_table2(setting, out=tmp_path / "out")


def test_a_recipe_with_a_second_stage_is_trained_without_it(small) -> None:
    two_stages = small.recipe.replace(second_stage_steps=3, algorithm_size=32)
    recipes = [one.recipe for one in planned(replace(small, recipe=two_stages), 60, 20) if one.maps]
    assert len(recipes) == len(VARIANTS)
    assert {recipe.second_stage_steps for recipe in recipes} == {0}
