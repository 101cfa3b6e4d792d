"""Figure 3: what other classifiers still see."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from casmap.errors import UserError
from casmap.evaluation.trust import inpainted
from casmap.inference.components import binary_mask
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.files import load_classifier, save_classifier
from casmap.paper.figure3 import (
    PAPER_CLASSIFIERS,
    QUICK_CLASSIFIERS,
    _random_mask,
    claims,
    default_classifiers,
    fetched,
    figure3,
    planned,
    run_figure3,
)
from casmap.paper.outcome import HOLDS, TIE
from casmap.paper.setting import find_setting
from casmap.tools.classifiers import versions


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40)), st.integers(0, 9))
def test_a_random_mask_has_as_many_pixels_and_is_the_same_each_time(mask, seed) -> None:
    found = _random_mask(mask, seed)
    assert found.shape == mask.shape
    assert found.sum() == mask.sum()
    np.testing.assert_array_equal(found, _random_mask(mask, seed))


def test_a_random_mask_has_nothing_to_do_with_the_mask() -> None:
    mask = np.zeros((64, 64), bool)
    mask[:, :32] = True
    overlaps = [(_random_mask(mask, seed) & mask).sum() / mask.sum() for seed in range(40)]
    assert 0.45 < np.mean(overlaps) < 0.55
    assert not np.array_equal(_random_mask(mask, 0), _random_mask(mask, 1))


@pytest.fixture
def setting(small):
    return replace(small, data="scenes:classes=3,photos=12,size=32", test="scenes:classes=3,photos=20,size=32")


def classifier(path, classes, seed=0, backbone="test_resnet"):
    torch.manual_seed(seed)
    save_classifier(path, Classifier(backbone, len(classes)), classes, {"origin": "Untrained."})
    return str(path)


def test_accuracies_are_counted_and_a_second_start_asks_nobody(setting, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("casmap.paper.figure3.KEPT", 16)  # twenty photos in two parts
    photos = setting.held_out_photos()
    places = [
        classifier(tmp_path / f"{backbone}.safetensors", list(photos.classes), backbone=backbone)
        for backbone in ("test_resnet", "test_efficientnet")
    ]
    outcome = run_figure3(setting, classifiers=places, out=tmp_path)
    assert [str(row[0]) for row in outcome.rows] == ["test_resnet", "test_efficientnet"]
    cells = {(r["classifier"], r["masks"], r["version"]): r["accuracy"] for r in outcome.records}
    assert len(cells) == 2 * (1 + 3 * 3)
    assert len(list((tmp_path / "figure3" / "parts").iterdir())) == 3 * 2
    f, _ = load_classifier(places[0])
    (path,) = tmp_path.glob("trainings/E-shared-F-*/mapping.safetensors")
    pictures = np.stack([photos.image(i) for i in range(len(photos))])
    masks = binary_mask(SaliencyMapper.load(path).masks(pictures)[0])
    f.eval()
    with torch.no_grad():
        for version, images in versions(pictures, masks, inpainted(pictures, masks), f.mean, f.std).items():
            right = float((f(images).argmax(dim=1).numpy() == photos.labels).mean())
            masker = "none" if version == "whole" else "Baseline"
            assert cells["test_resnet", masker, version] == pytest.approx(
                right, abs=0.051
            )  # one at the border may flip
    monkeypatch.setattr("casmap.paper.figure3.classify", lambda *_: pytest.fail("asked again"))
    assert run_figure3(setting, classifiers=places, out=tmp_path) == outcome


def test_classifiers_of_one_name_and_other_weights_are_told_apart_and_asked_anew(setting, tmp_path) -> None:
    classes = list(setting.held_out_photos().classes)
    for folder in ("a", "b"):
        (tmp_path / folder / "c").mkdir(parents=True)
    places = [
        classifier(tmp_path / folder / "c" / "classifier.safetensors", classes, seed)
        for seed, folder in enumerate("ab")
    ]
    outcome = run_figure3(setting, classifiers=places, out=tmp_path)
    assert [str(row[0]) for row in outcome.rows] == places
    classifier(Path(places[0]), classes, seed=7)
    before = len(list((tmp_path / "figure3" / "parts").iterdir()))
    run_figure3(setting, classifiers=places, out=tmp_path)
    assert len(list((tmp_path / "figure3" / "parts").iterdir())) == 2 * before


def test_a_classifier_of_other_classes_is_refused_before_anything_is_trained(setting, tmp_path) -> None:
    place = classifier(tmp_path / "other.safetensors", ["cat", "dog"])
    with pytest.raises(UserError, match="does not have exactly the 3 classes"):
        run_figure3(setting, classifiers=[place], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mappings_alone_need_classifiers_and_none_may_be_called_random(setting, tmp_path) -> None:
    with pytest.raises(UserError, match="Name the classifiers to test"):
        run_figure3(setting, mappings=[tmp_path / "m.onnx"], out=tmp_path / "out")
    (tmp_path / "random").mkdir()
    mapping = tmp_path / "random" / "mapping.onnx"
    mapping.write_bytes(SHIPPED.read_bytes())
    with pytest.raises(UserError, match="cannot be named 'random'"):
        run_figure3(setting, mappings=[mapping], classifiers=["lite0"], out=tmp_path / "out")


def test_the_quick_form_trains_its_classifiers(setting, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("casmap.paper.figure3.QUICK_CLASSIFIERS", {"test_resnet": 2, "test_efficientnet": 1})
    outcome = run_figure3(setting, out=tmp_path)
    assert [str(row[0]) for row in outcome.rows] == [
        "test_resnet, seed 0", "test_resnet, seed 1", "test_efficientnet, seed 0",
    ]  # fmt: skip
    assert len(list(tmp_path.glob("trainings/classifier-*"))) == 3  # the first is f(0) itself, trained once


def test_quick_classifiers_are_ten_of_three_architectures_or_more() -> None:
    recipes, ready = default_classifiers(find_setting(None))
    assert len(recipes) >= 10
    assert len(QUICK_CLASSIFIERS) >= 3
    assert not ready


def test_the_papers_classifiers_are_twenty_resnets_and_seventeen_of_torchvision() -> None:
    recipes, ready = default_classifiers(find_setting("ImageNet", paper=True))
    assert len(recipes) == 20
    assert {recipe.seed for recipe in recipes.values()} == set(range(20))
    assert not any(recipe.pretrained for recipe in recipes.values())
    assert len(ready) == len(set(PAPER_CLASSIFIERS)) == 17
    plan = planned(find_setting("ImageNet", paper=True), 1_281_167, 1000)
    assert [(one.runs, one.maps) for one in plan] == [(1, True), (1, True), (20, False)]  # f(0) is pretrained


def test_classifiers_that_are_named_are_neither_trained_nor_fetched() -> None:
    paper = find_setting("ImageNet", paper=True)
    assert len(planned(paper, 1_281_167, 1000, classifiers=["lite0"])) == 2  # CASM and Baseline
    assert planned(paper, 1_281_167, 1000, mappings=[SHIPPED], classifiers=["lite0"]) == []
    assert len(fetched(paper)) == 17
    assert not fetched(paper, classifiers=["lite0"])


def answers(masked_in: float, masked_out: float, inpainted: float, photos: int = 200):
    shares = {"whole": 0.9, "masked-in": masked_in, "masked-out": masked_out, "inpainted": inpainted}
    return {version: [number < share * photos for number in range(photos)] for version, share in shares.items()}


def test_what_the_paper_concludes_holds_where_its_figure_says_so() -> None:
    found = {
        "f": {"CASM": answers(0.7, 0.1, 0.1), "Baseline": answers(0.5, 0.1, 0.4), "random": answers(0.1, 0.1, 0.8)}
    }
    told = claims(found, ["CASM", "Baseline"])
    assert [claim.verdict for claim in told] == [HOLDS] * 3
    assert "CASM +0.0 [+0.0, +0.0], Baseline +30.0" in told[1].here


def test_equal_masks_settle_nothing() -> None:
    found = {
        "f": {"CASM": answers(0.5, 0.1, 0.3), "Baseline": answers(0.5, 0.1, 0.3), "random": answers(0.1, 0.1, 0.8)}
    }
    assert [claim.verdict for claim in claims(found, ["CASM", "Baseline"])] == [TIE] * 3


def test_a_single_mapping_has_dots_and_no_conclusions() -> None:
    found = {"f": {"mine": answers(0.5, 0.1, 0.3), "random": answers(0.1, 0.1, 0.8)}}
    outcome = figure3(found, {"f": "lite0"}, "lite0", ["mine"], "pets", papers=False)
    assert outcome.claims == []
    assert outcome.figures[""].startswith(b"\x89PNG")
