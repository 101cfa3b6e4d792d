"""Fitting the head: the best linear layer on the backbone's features; the backbone does not change."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from casmap.data.batches import normalised
from casmap.data.scenes import Scenes
from casmap.models.classifier import Classifier
from casmap.training import head
from casmap.training.head import L2, _balanced_sample, _best_linear, head_inputs

SIZE = 64


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 5))
def test_nothing_nearby_is_better(seed: int, classes: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    features, labels = torch.randn(40, 6, generator=chance), torch.randint(classes, (40,), generator=chance)
    weight, bias = (tensor.requires_grad_(True) for tensor in _best_linear(features, labels, classes))
    loss = cross_entropy(features @ weight.T + bias, labels) + L2 / 2 * weight.square().sum()
    for slope in torch.autograd.grad(loss, (weight, bias)):  # the loss is convex: no slope, no better place
        assert slope.abs().max() < 2e-3


@pytest.fixture
def classifier() -> Classifier:
    torch.manual_seed(0)
    return Classifier("test_resnet", 4).eval()


def _accuracy(classifier: Classifier, photos: Scenes) -> float:
    images = np.stack([photos.image(i) for i in range(len(photos))])
    with torch.no_grad():
        seen = classifier(normalised(images, classifier.mean, classifier.std)).argmax(dim=1)
    return float(np.mean(seen.numpy() == photos.labels))


def fit_head(classifier: Classifier, photos: Scenes, size: int) -> float | None:
    return head_inputs(classifier, photos, size, torch.device("cpu")).fit(classifier)


def test_the_head_is_fitted_and_the_backbone_stays(classifier) -> None:
    photos = Scenes(classes=4, photos=60, size=SIZE)
    before = {name: tensor.clone() for name, tensor in classifier.network.state_dict().items()}
    assert _accuracy(classifier, photos) < 0.5
    share = fit_head(classifier, photos, SIZE)
    after = classifier.network.state_dict()
    assert {name for name in after if not torch.equal(after[name], before[name])} == {"fc.weight", "fc.bias"}
    assert _accuracy(classifier, photos) > 0.7  # even on a random backbone
    assert 0.25 <= share < _accuracy(classifier, photos)  # honest: on photos that it was not fitted to


def test_of_very_many_photos_only_some_are_used(classifier, monkeypatch) -> None:
    monkeypatch.setattr(head, "HEAD_PHOTOS", 10)
    photos, opened = Scenes(classes=4, photos=36, size=SIZE), []
    real = photos.image
    monkeypatch.setattr(photos, "image", lambda index, least=None: opened.append(index) or real(index, least))
    fit_head(classifier, photos, SIZE)
    assert sorted(opened) == list(range(10))  # two or three of each class: scenes go round the classes


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 40))
def test_no_class_is_left_out_before_another_has_two_more(labels: list[int], most: int) -> None:
    chosen, ranks = _balanced_sample(np.array(labels), most)
    taken = [labels[i] for i in chosen]
    assert len(chosen) == len(set(chosen)) == min(most, len(labels))
    assert list(chosen) == sorted(chosen)
    for label in set(labels):
        assert sorted(ranks[np.array(taken) == label]) == list(range(taken.count(label)))
        if taken.count(label) < labels.count(label):
            assert all(taken.count(other) <= taken.count(label) + 1 for other in set(labels))


def test_the_fifth_is_held_out_of_every_class(classifier) -> None:
    torch.manual_seed(0)
    many = Classifier("test_resnet", 5).eval()
    assert fit_head(many, Scenes(classes=5, photos=100, size=SIZE), SIZE) > 0.2
    assert fit_head(classifier, Scenes(classes=4, photos=16, size=SIZE), SIZE) is None
