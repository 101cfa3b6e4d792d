"""Figure 3: what other classifiers still see."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from casmap.data.batches import normalised
from casmap.errors import UserError
from casmap.model.classifier import Classifier
from casmap.model.files import load_classifier, save_classifier
from casmap.saliency_map import binary_mask
from casmap.studies.claims import HOLDS, TIE
from casmap.studies.entries import Entries
from casmap.studies.figure3 import (
    PAPER_CLASSIFIERS,
    QUICK_CLASSIFIERS,
    claims,
    figure3,
    find_classifiers,
    form,
    planned,
    random_mask,
    run_figure3,
    versions,
)
from casmap.studies.setting import find_setting


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40)), st.integers(0, 9))
def test_a_random_mask_has_as_many_pixels_and_is_the_same_each_time(mask, seed) -> None:
    found = random_mask(mask, seed)
    assert found.shape == mask.shape
    assert found.sum() == mask.sum()
    np.testing.assert_array_equal(found, random_mask(mask, seed))


def test_a_random_mask_has_nothing_to_do_with_the_mask() -> None:
    mask = np.zeros((64, 64), bool)
    mask[:, :32] = True
    overlaps = [(random_mask(mask, seed) & mask).sum() / mask.sum() for seed in range(40)]
    assert 0.45 < np.mean(overlaps) < 0.55
    assert not np.array_equal(random_mask(mask, 0), random_mask(mask, 1))


def test_versions_by_hand() -> None:
    f = Classifier("test_resnet", classes=3)
    pictures = np.random.default_rng(0).integers(0, 255, (2, 32, 32, 3), np.uint8)
    masks = np.zeros((2, 32, 32), bool)
    masks[:, 8:16, 8:16] = True
    seen = versions(f, pictures, masks)
    whole = normalised(pictures, f.mean, f.std)
    assert list(seen) == ["whole", "masked-in", "masked-out", "inpainted"]
    torch.testing.assert_close(seen["whole"], whole)
    assert (seen["masked-in"][:, :, :8] == 0).all()
    torch.testing.assert_close(seen["masked-in"][:, :, 8:16, 8:16], whole[:, :, 8:16, 8:16])
    assert (seen["masked-out"][:, :, 8:16, 8:16] == 0).all()
    torch.testing.assert_close(seen["masked-in"] + seen["masked-out"], whole)
    filled = cv2.inpaint(pictures[0], masks[0].astype(np.uint8), 3, cv2.INPAINT_TELEA)
    torch.testing.assert_close(
        seen["inpainted"][0, :, 8:16, 8:16], normalised(filled[None], f.mean, f.std)[0, :, 8:16, 8:16]
    )


@pytest.fixture
def setting(small):
    return replace(small, data="scenes:classes=3,photos=12,size=32", test="scenes:classes=3,photos=20,size=32")


@pytest.fixture
def entries(setting, tmp_path, quiet):
    return Entries.open(setting, None, tmp_path, quiet)


def test_accuracies_are_counted_and_a_second_start_asks_nobody(entries, setting, tmp_path, quiet, monkeypatch):
    (first,) = (str(path) for path in tmp_path.glob("trainings/classifier-*/classifier.safetensors"))
    other = tmp_path / "other.safetensors"
    save_classifier(other, Classifier("test_efficientnet", 3), list(entries.photos.classes), {"origin": "Untrained."})
    named = {"f(0)": first, "other": str(other)}
    outcome = run_figure3(entries.photos, entries.mappers, named, tmp_path, entries.options, quiet)
    assert [str(row[0]) for row in outcome.rows] == ["f(0)", "other"]
    cells = {(r["classifier"], r["masks"], r["version"]): r["accuracy"] for r in outcome.records}
    assert len(cells) == 2 * (1 + 3 * 3)
    f, _ = load_classifier(first)
    photos = entries.photos
    pictures = np.stack([photos.image(i) for i in range(len(photos))])
    masks = binary_mask(entries.mappers["Baseline"].masks(pictures)[0])
    with torch.no_grad():
        for version, images in versions(f.eval(), pictures, masks).items():
            right = float((f(images).argmax(dim=1).numpy() == photos.labels).mean())
            masker = "none" if version == "whole" else "Baseline"
            assert cells["f(0)", masker, version] == pytest.approx(right, abs=0.051)  # a photo at the border may flip
    monkeypatch.setattr("casmap.studies.figure3.look", lambda *_: pytest.fail("asked again"))
    again = run_figure3(entries.photos, entries.mappers, named, tmp_path, entries.options, quiet)
    assert again == outcome


def test_a_classifier_of_the_same_name_and_other_weights_is_asked_anew(entries, tmp_path, quiet) -> None:
    file = tmp_path / "other.safetensors"
    told = []
    for seed in range(2):
        torch.manual_seed(seed)
        save_classifier(file, Classifier("test_resnet", 3), list(entries.photos.classes), {"origin": "Untrained."})
        run_figure3(entries.photos, entries.mappers, {"other": str(file)}, tmp_path, entries.options, quiet)
        told.append(len(list((tmp_path / "figure3" / "parts").iterdir())))
    assert told == [3, 6]


def test_a_classifier_of_other_classes_is_refused(entries, tmp_path, quiet) -> None:
    other = tmp_path / "other.safetensors"
    save_classifier(other, Classifier("test_resnet", 2), ["cat", "dog"], {"origin": "Untrained."})
    with pytest.raises(UserError, match="does not know exactly the 3 classes"):
        run_figure3(entries.photos, entries.mappers, {"other": str(other)}, tmp_path, entries.options, quiet)


def test_quick_classifiers_are_ten_of_three_architectures_or_more_and_one_is_f0(small) -> None:
    recipes, ready = form(find_setting(None))
    assert len(recipes) >= 10
    assert len(QUICK_CLASSIFIERS) >= 3
    assert not ready
    assert small.recipe.backbone in QUICK_CLASSIFIERS


def test_the_papers_classifiers_are_twenty_resnets_and_seventeen_of_torchvision() -> None:
    recipes, ready = form(find_setting("ImageNet", paper=True))
    assert len(recipes) == 20
    assert {recipe.seed for recipe in recipes.values()} == set(range(20))
    assert not any(recipe.pretrained for recipe in recipes.values())
    assert len(ready) == len(set(PAPER_CLASSIFIERS)) == 17
    plan = planned(find_setting("ImageNet", paper=True), 1_281_167, 1000)
    assert [(one.runs, one.maps) for one in plan] == [(1, False), (1, True), (1, True), (20, False)]


def test_classifiers_that_are_named_are_asked_and_mappings_alone_need_some(setting, tmp_path, quiet) -> None:
    named = ["lite0", "torchvision/mobilenet_v2=w.safetensors"]
    assert find_classifiers(setting, named, None, tmp_path, quiet) == dict(
        zip(["lite0", "mobilenet_v2"], named, strict=True)
    )
    with pytest.raises(UserError, match="Name the classifiers to ask"):
        find_classifiers(setting, None, [tmp_path / "m.onnx"], tmp_path, quiet)


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
    outcome = figure3(found, {"f": "lite0"}, "lite0", ["mine"], "pets")
    assert outcome.claims == []
    assert outcome.figures[""].startswith(b"\x89PNG")
