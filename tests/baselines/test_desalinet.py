"""DeSaliNet beside captum's guided backpropagation, and where the place of the evidence is known."""

import torch
from captum.attr import GuidedBackprop

from casmap.baselines.desalinet import desalinet


def test_it_is_captums(planted) -> None:
    images, classes = planted.images[:3], planted.classes[:3]
    found = desalinet(planted.classifier, images, classes)
    wanted = GuidedBackprop(planted.classifier).attribute(images.clone().requires_grad_(True), target=classes)
    torch.testing.assert_close(found, wanted.detach().abs().amax(dim=1), rtol=1e-3, atol=1e-5)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(desalinet) > 0.7
