"""Photos as classifiers are asked about them."""

import numpy as np
import pytest
import torch

from casmap.data.batches import normalised
from casmap.errors import UserError
from casmap.evaluation.trust import inpainted
from casmap.inference.saliency_map import SaliencyMap
from casmap.tools.classifiers import open_judge, open_with_classes, versions


def test_versions_by_hand() -> None:
    mean, std = (0.5, 0.25, 0.1), (0.2, 0.3, 0.4)
    pictures = np.random.default_rng(0).integers(0, 255, (2, 32, 32, 3), np.uint8)
    masks = np.zeros((2, 32, 32), bool)
    masks[:, 8:16, 8:16] = True
    filled = 255 - pictures
    seen = versions(pictures, masks, filled, mean, std)
    whole = normalised(pictures, mean, std)
    assert list(seen) == ["whole", "masked-in", "masked-out", "inpainted"]
    torch.testing.assert_close(seen["whole"], whole)
    assert (seen["masked-in"][:, :, :8] == 0).all()
    torch.testing.assert_close(seen["masked-in"][:, :, 8:16, 8:16], whole[:, :, 8:16, 8:16])
    assert (seen["masked-out"][:, :, 8:16, 8:16] == 0).all()
    torch.testing.assert_close(seen["masked-in"] + seen["masked-out"], whole)
    torch.testing.assert_close(seen["inpainted"], normalised(filled, mean, std))


def test_what_is_marked_is_painted_over_in_each_picture() -> None:
    chance = np.random.default_rng(0)
    pictures = chance.integers(0, 255, (2, 32, 32, 3), np.uint8)
    masks = np.zeros((2, 32, 32), bool)
    masks[0, 8:16, 8:16] = masks[1, 20:24, 2:6] = True
    found = inpainted(pictures, masks)
    for picture, mask, filled in zip(pictures, masks, found, strict=True):
        np.testing.assert_array_equal(filled, SaliencyMap(picture, mask.astype(np.float32)).inpainted())
    assert (found[masks] != pictures[masks]).any(axis=1).mean() > 0.9


@pytest.mark.parametrize(
    ("name", "known"),
    [("vit_base_patch16_224.augreg_in21k", 21843), ("convnext_tiny.in12k", 11821), ("resnet50_clip.openai", 1024)],
)
def test_weights_of_other_classes_than_imagenets_are_refused(name, known) -> None:
    for opening in (open_with_classes, open_judge):
        with pytest.raises(UserError, match=f"{name} have {known} classes, not the 1000 of ImageNet-1k"):
            opening(name)
