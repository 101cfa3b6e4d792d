"""The gradient beside autograd's, and where the place of the evidence is known."""

import torch
from torch import nn

from casmap.baselines.gradient import gradient, plain_gradient


def test_the_gradient_is_autograds(planted) -> None:
    images, classes = planted.images[:3].clone().requires_grad_(True), planted.classes[:3]
    for index, label in enumerate(classes.tolist()):
        (back,) = torch.autograd.grad(planted.classifier(images)[index, label], images)
        ours = plain_gradient(planted.classifier, images.detach(), classes)[index]
        torch.testing.assert_close(ours, back[index].abs().amax(dim=0), rtol=1e-4, atol=1e-6)


def test_ten_crops_are_all_of_a_picture_that_is_the_same_everywhere(planted) -> None:
    """Each pixel has the mean over the crops that show it: of the whole picture's gradient, if nothing moves."""
    maps = gradient(Flat(), torch.rand(1, 3, 64, 64), torch.tensor([0]))
    assert maps.shape == (1, 64, 64)
    torch.testing.assert_close(maps, torch.full((1, 64, 64), 1 / 64**2), rtol=1e-3, atol=1e-6)


class Flat(nn.Module):
    """A logit that is the mean of all pixels of the first colour: its gradient is the same everywhere."""

    def forward(self, images):
        return images[:, :1].mean(dim=(2, 3))


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(gradient) > 0.7


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(gradient, two_planted) > 0.7
