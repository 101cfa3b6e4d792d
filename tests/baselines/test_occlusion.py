"""Occlusion by hand, and where the place of the evidence is known."""

import torch

from casmap.baselines.occlusion import occlusion


def test_occlusion_by_hand(planted) -> None:
    """64 pixels: squares of 16, moved by 4; a pixel has the mean of the losses of all squares over it."""
    images, classes = planted.images[:1], planted.classes[:1]
    loss, count = torch.zeros(64, 64), torch.zeros(64, 64)
    with torch.no_grad():
        whole = planted.classifier(images).softmax(dim=1)[0, classes[0]]
        for y in range(0, 49, 4):
            for x in range(0, 49, 4):
                covered = images.clone()
                covered[..., y : y + 16, x : x + 16] = 0
                loss[y : y + 16, x : x + 16] += whole - planted.classifier(covered).softmax(dim=1)[0, classes[0]]
                count[y : y + 16, x : x + 16] += 1
    wanted = (loss / count).clamp_min(0)
    torch.testing.assert_close(occlusion(planted.classifier, images, classes)[0], wanted, rtol=1e-3, atol=1e-4)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(occlusion, few=8) > 0.7


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(occlusion, two_planted) > 0.7
