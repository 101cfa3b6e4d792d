"""A classifier in another engine answers as before."""

import pytest
import torch

from casmap.baselines.support import black_box as module
from casmap.baselines.support.black_box import black_box
from casmap.models.classifier import Classifier


@pytest.mark.parametrize("backbone", ["test_resnet", "test_efficientnet", "torchvision/mobilenet_v2"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_it_tells_the_same_logits_of_any_number_of_pictures(backbone, layout) -> None:
    torch.manual_seed(0)
    f = Classifier(backbone, classes=5).eval().requires_grad_(False)
    asked = black_box(f, torch.zeros(1, 3, 64, 64))
    assert asked is not f
    for count in (1, 7):
        images = torch.randn(count, 3, 64, 64).to(memory_format=layout)
        torch.testing.assert_close(asked(images), f(images), rtol=1e-3, atol=1e-4)


def test_what_cannot_be_brought_there_answers_as_it_is(capfd) -> None:
    f = Classifier("test_vit", classes=5).eval()  # how it fits its positions to other sizes, ONNX has no word for
    assert black_box(f, torch.zeros(1, 3, 64, 64)) is f
    assert capfd.readouterr() == ("", "")


def test_what_answers_otherwise_there_answers_as_it_is(monkeypatch) -> None:
    torch.manual_seed(0)
    f, other = (Classifier("test_resnet", classes=5).eval().requires_grad_(False) for _ in range(2))
    session = module._session(other, torch.zeros(2, 3, 64, 64))
    monkeypatch.setattr(module, "_session", lambda classifier, images: session)
    images = torch.randn(1, 3, 64, 64)
    assert black_box(f, images) is f
    assert black_box(other, images) is not other
