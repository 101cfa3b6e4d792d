"""Quality and the length of training."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.errors import UserError
from casmap.evaluation.evaluate import localization_errors, map_photos
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.models.files import load_classifier, load_mapping
from casmap.paper.figure3 import PAPER_CLASSIFIERS, QUICK_CLASSIFIERS
from casmap.paper.length import AREA, STUDY, claims, highest, length, planned, recipes_of, run_length
from casmap.paper.outcome import FAILS, HOLDS, write_outcome
from casmap.paper.report import run_report
from casmap.tools.classifiers import logits_of_versions
from casmap.training.recipes import PAPER, PHOTOS

SCENES = "scenes:classes=4,photos={},size=32"


@pytest.fixture
def setting(small):
    return replace(small, data=SCENES.format(24), test=SCENES.format(12))


def test_a_longer_list_continues_the_same_runs(setting, tmp_path) -> None:
    run_length(setting, snapshots=[1, 2], out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trainings/*/mapping-*.safetensors")}
    assert len(before) == 6  # F, L100 and L, each after one and two steps
    outcome = run_length(setting, snapshots=[1, 2, 4], thinnings=["F", "L100"], out=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    after = {path.parent.name: path for path in tmp_path.glob("trainings/*/mapping-4.safetensors")}
    assert {name.split("-")[2] for name in after} == {"F", "L100"}
    assert {path.parent for path in before} >= {path.parent for path in after.values()}  # no new run
    assert [(str(row[0]), str(row[1])) for row in outcome.rows] == [
        (str(steps), thinning) for steps in (1, 2, 4) for thinning in ("F", "L100")
    ]
    assert "up to 4 steps" in outcome.title


def test_a_wrong_thinning_is_refused_before_anything_is_trained(setting, tmp_path) -> None:
    with pytest.raises(UserError, match="thinning"):
        run_length(setting, snapshots=[1], thinnings=["F", "L0"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_each_number_is_that_of_its_snapshot(setting, tmp_path) -> None:
    outcome = run_length(setting, snapshots=[3], thinnings=["F"], out=tmp_path)
    (path,) = tmp_path.glob("trainings/E-shared-F-*/mapping-3.safetensors")
    mapper, photos = SaliencyMapper.load(path), setting.held_out_photos()
    predictions = map_photos(system_of(mapper, photos), photos, 32, "crop")
    (record,) = outcome.records
    assert record["LE"] == pytest.approx(localization_errors(predictions).mean())
    assert record["mean mask"] == pytest.approx(predictions.masks.mean())
    judges = [load_classifier(file)[0].eval() for file in tmp_path.glob("trainings/classifier-*/*.safetensors")]
    judges = {judge.backbone: judge for judge in judges if judge.backbone != "test_resnet"}
    assert set(judges) == {"test_efficientnet", "test_byobnet", "test_vit"}
    images, binary = np.stack([photos.image(i) for i in range(len(photos))]), highest(predictions.masks, AREA)
    right: dict[str, list[float]] = {}
    for _, version, logits in logits_of_versions(judges, images, binary):
        right.setdefault(version, []).append(float((logits.argmax(axis=1) == photos.labels).mean()))
    for version in ("masked-in", "masked-out", "inpainted"):
        assert record[f"accuracy {version}"] == pytest.approx(np.mean(right[version]))
    assert all(name in outcome.text for name in judges)


def test_several_trainings_have_seeds_of_their_own_and_one_f0(setting, tmp_path) -> None:
    outcome = run_length(setting, snapshots=[2], thinnings=["L"], each=2, out=tmp_path)
    paths = sorted(tmp_path.glob("trainings/E-shared-L-*/mapping-2.safetensors"))
    assert [load_mapping(path)[1]["recipe"]["seed"] for path in paths] == [0, 1]
    assert len(list(tmp_path.glob("trainings/classifier-test_resnet-*"))) == 1
    photos = setting.held_out_photos()
    mappers = [SaliencyMapper.load(path) for path in paths]
    masks = [map_photos(system_of(mapper, photos), photos, 32, "crop").masks for mapper in mappers]
    (record,) = outcome.records
    assert record["spread"] == pytest.approx(np.mean([one.mean(axis=(1, 2)).std() for one in masks]))


def test_the_papers_score_is_the_default_and_the_recipes_an_option(setting) -> None:
    photos = replace(setting, recipe=PHOTOS)
    first, papers = recipes_of(photos, recipe_score=False, erase=None, size=96)
    assert (papers.score, papers.masked_in, papers.encoder) == (PAPER.score, PAPER.masked_in, PAPER.encoder)
    assert papers.second_stage_steps == first.second_stage_steps == 0
    assert papers.size == first.size == 96
    _, own = recipes_of(photos, recipe_score=True, erase=None, size=None)
    assert (own.score, own.masked_in, own.encoder) == (PHOTOS.score, PHOTOS.masked_in, PHOTOS.encoder)
    _, features = recipes_of(photos, recipe_score=False, erase="features", size=None)
    assert (features.erase, features.score, features.encoder) == ("features", PAPER.score, "first")


def test_f0_does_not_judge(setting, tmp_path) -> None:
    with pytest.raises(UserError, match=r"test_resnet is the f\(0\) of all runs"):
        run_length(setting, snapshots=[1], classifiers=["test_resnet"], out=tmp_path)


def test_the_plan_counts_the_last_snapshot(setting) -> None:
    plan = planned(setting, 24, 4, snapshots=[1, 5], thinnings=["F", "L"], each=3)
    runs = [("f(0)", 4, 0), ("F", 0, 15), ("L", 0, 15)]
    assert [(one.what, one.first_steps, one.steps) for one in plan[:3]] == runs
    plan = planned(setting, 24, 4, snapshots=[1, 5], thinnings=["F", "L"], each=3, classifiers=["a"])
    assert [(one.what, one.first_steps, one.steps) for one in plan] == runs


def test_the_plan_counts_the_classifiers_that_judge(setting) -> None:
    judges = [one for one in planned(setting, 24, 4) if one.what.startswith("classifiers: ")]
    assert {one.recipe.backbone for one in judges} == set(QUICK_CLASSIFIERS) - {setting.recipe.backbone}
    assert all(one.runs == 1 and one.first_steps > 0 == one.steps for one in judges)
    assert not STUDY.fetched(setting, classifiers=None, each=1)
    papers = replace(setting, data="photos", recipe=PAPER)
    ready = STUDY.fetched(papers, classifiers=None, each=1)
    assert len(ready) == len(PAPER_CLASSIFIERS) - 1
    assert PAPER.backbone not in ready
    assert STUDY.fetched(papers, classifiers=["lite0"], each=1) == ()


def values(le, variation):
    zeros = np.zeros((1, len(le)))
    names = ("F1", "LE at area 0.3", "mask entropy", "mean mask")
    return {"LE": np.array([le]), "total variation": np.array([variation])} | dict.fromkeys(names, zeros)


def test_claims_and_differences_compare_with_f_at_the_same_step(setting, tmp_path) -> None:
    found = {
        ("F", 10): values([1.0] * 4, [5.0] * 4), ("L100", 10): values([0.0] * 4, [7.0] * 4),
        ("F", 30): values([1.0] * 4, [9.0] * 4), ("L100", 30): values([1.0, 0.0, 0.0, 0.0], [9.5, 9.5, 9.5, 9.5]),
    }  # fmt: skip
    verdicts = {claim.statement: claim.verdict for claim in claims(found, 30)}
    assert verdicts["After 30 steps L100 has a lower LE than F"] == HOLDS
    assert verdicts["After 30 steps L100 has a lower total variation than F"] == FAILS
    outcome = length(found, [], setting.data, setting.recipe, 1)
    (differences,) = (one for one in outcome.further if one.title == "Differences in points")
    assert [str(row[2]).split()[0] for row in differences.rows] == ["-100.0", "-75.0"]
    assert [cell.best for cell in (outcome.rows[0][2], outcome.rows[1][2])] == [False, True]
    assert not claims({row: of for row, of in found.items() if row[0] == "F"}, 30)
    write_outcome(outcome, tmp_path / "length")
    assert len(run_report(tmp_path).claims) == len(claims(found, 30))


@given(arrays(np.float32, (3, 6, 5), elements=st.floats(0, 1, width=32)), st.floats(0, 1))
def test_the_highest_values_are_chosen_and_all_masks_have_one_area(masks, area) -> None:
    binary = highest(masks, area)
    assert set(binary.sum(axis=(1, 2))) == {round(area * 30)}
    for mask, chosen in zip(masks, binary, strict=True):
        if 0 < chosen.sum() < 30:
            assert mask[chosen].min() >= mask[~chosen].max()


def test_of_equal_values_random_ones_are_chosen() -> None:
    (binary,) = highest(np.ones((1, 40, 40), np.float32), 0.3)
    upper, left = binary[:20].mean(), binary[:, :20].mean()
    assert binary.mean() == pytest.approx(0.3)
    assert upper == pytest.approx(0.3, abs=0.08)
    assert left == pytest.approx(0.3, abs=0.08)
