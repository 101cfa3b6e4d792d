"""Contrastive excitation backprop by hand, beside TorchRay's, and where the place of the evidence is known."""

import pytest
import torch
from torch import nn

from casmap.baselines.excitation_backprop import contrasted, excitation_backprop
from casmap.models.class_activation import min_max


def test_contrastive_winning_probabilities_by_hand() -> None:
    features = torch.tensor([[1.0, 3.0], [4.0, 0.0]]).view(1, 2, 1, 2)  # two maps of two places
    weights = torch.tensor([[2.0, -1.0]])  # the first speaks for the class, the second against it
    # For: 2 (1, 3) of 8 -> 1/4, 3/4. Against: (4, 0) of 4 -> 1, 0, on the other map.
    torch.testing.assert_close(contrasted(features, weights).flatten(), torch.tensor([0.25, 0.75, -1.0, 0.0]))


def test_contrastive_excitation_backprop_is_torchrays(planted) -> None:
    """On a plain network, which both can handle: convolutions, ReLU, average pooling, one linear layer."""
    excitation = pytest.importorskip("torchray.attribution.excitation_backprop")
    plain = Plain().eval()
    images, classes = planted.images[:3], planted.classes[:3]
    theirs = excitation.contrastive_excitation_backprop(
        plain, images, classes, saliency_layer="first", contrast_layer="second", classifier_layer="fc"
    )
    ours = excitation_backprop(plain, images, classes)
    torch.testing.assert_close(min_max(ours), min_max(theirs[:, 0].detach()), rtol=1e-2, atol=1e-2)


class Plain(nn.Module):
    """Two stages; the first has an eighth of the picture's side."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Sequential(nn.Conv2d(3, 8, 8, stride=8, bias=False), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.ReLU())
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 4, bias=False)
        self.backbone, self.stage_indices = "plain", (0, 1)
        self.num_features = 16

    def forward(self, images):
        return self.fc(self.pool(self.second(self.first(images))).flatten(1))

    def forward_features(self, images):
        low = self.first(images)
        features = self.second(low)
        return self.fc(self.pool(features).flatten(1)), [low, features], features

    @property
    def network(self):
        return self

    def get_classifier(self):
        return self.fc


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(excitation_backprop) > 0.8


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(excitation_backprop, two_planted) > 0.7
