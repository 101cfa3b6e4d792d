"""RISE by its library's masks, and where the place of the evidence is known."""

import pytest
import torch

from casmap.baselines.rise import rise


def test_rise_by_the_librarys_masks(planted) -> None:
    """The mean of TorchRay's own masks, each weighted with the probability that torch, not ONNX Runtime, tells."""
    library = pytest.importorskip("torchray.attribution.rise")
    images, classes = planted.images[:2], planted.classes[:2]
    seen: list[torch.Tensor] = []  # all-ones pictures times the masks: the masks
    library.rise(
        lambda pictures: (seen.append(pictures), pictures.mean(dim=(2, 3)))[1], torch.ones(1, 1, 64, 64), num_masks=48
    )
    masks = torch.cat(seen[1:])  # first it asks for the picture itself
    assert len(masks) == 48
    for image, label, found in zip(images, classes, rise(planted.classifier, images, classes, masks=48), strict=True):
        with torch.no_grad():
            probabilities = planted.classifier(image * masks).softmax(dim=1)[:, label]
        torch.testing.assert_close(
            found, (probabilities[:, None, None] * masks[:, 0]).mean(dim=0), rtol=1e-3, atol=1e-5
        )


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(rise, few=8, masks=500) > 0.7
