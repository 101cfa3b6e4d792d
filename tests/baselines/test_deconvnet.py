"""Deconvnet beside captum's, and where the place of the evidence is known."""

import torch
from captum.attr import Deconvolution

from casmap.baselines.deconvnet import deconvnet


def test_it_is_captums(planted) -> None:
    images, classes = planted.images[:3], planted.classes[:3]
    found = deconvnet(planted.classifier, images, classes)
    wanted = Deconvolution(planted.classifier).attribute(images.clone().requires_grad_(True), target=classes)
    torch.testing.assert_close(found, wanted.detach().abs().amax(dim=1), rtol=1e-3, atol=1e-5)


def test_it_finds_a_planted_object(planted) -> None:
    """Hardly: where nothing pools by the maximum, it hardly sees the picture."""
    assert planted.finds(deconvnet) > 0.55
