"""Grad-CAM against finite differences, against CAM where both are known to agree, and what it leaves behind."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchcam.methods import GradCAM

from casmap.baselines.cam import cam
from casmap.baselines.grad_cam import grad_cam
from casmap.errors import UserError
from casmap.models.class_activation import min_max
from casmap.models.classifier import Classifier

STEP = 1e-5


def build(backbone: str) -> Classifier:
    torch.manual_seed(0)
    return Classifier(backbone, 3).eval()


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return build("test_resnet")


def random_images(count: int, height: int, width: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------------------------------------- the formula


@torch.no_grad()
def slow_grad_cam(classifier: Classifier, images: torch.Tensor, classes: list[int]) -> torch.Tensor:
    """Photo by photo, channel by channel: raise the whole channel a little, see how far the logit moves."""
    features = classifier.network.forward_features(images)
    maps = torch.zeros(len(images), *features.shape[2:], dtype=features.dtype)
    positions = maps[0].numel()
    for n, label in enumerate(classes):
        for k in range(features.shape[1]):
            raised, lowered = features[n : n + 1].clone(), features[n : n + 1].clone()
            raised[0, k] += STEP
            lowered[0, k] -= STEP
            high, low = (classifier.network.forward_head(moved)[0, label] for moved in (raised, lowered))
            maps[n] += (high - low) / (2 * STEP) / positions * features[n, k]
    return maps.clamp_min(0)


@pytest.mark.parametrize("backbone", ["test_resnet", "test_convnext", "test_efficientnet"])
def test_a_map_is_what_finite_differences_give(backbone: str) -> None:
    classifier, images = build(backbone).double(), random_images(2, 96, 64).double()
    found = {0: 0.0, 1: 0.0, 2: 0.0}
    for classes in ([0, 2], [1, 1]):
        maps = grad_cam(classifier, images, torch.tensor(classes))
        torch.testing.assert_close(maps, slow_grad_cam(classifier, images, classes), rtol=1e-4, atol=1e-7)
        for label, single in zip(classes, maps, strict=True):
            found[label] += float(single.max())
    assert max(found.values()) > 1e-4  # or the comparison would say little


def test_a_photo_does_not_change_the_map_of_another(classifier: Classifier) -> None:
    images, classes = random_images(3, 64, 64), torch.tensor([2, 0, 1])
    together = grad_cam(classifier, images, classes)
    alone = [grad_cam(classifier, images[i : i + 1], classes[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-6)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    height=st.integers(33, 150),
    width=st.integers(33, 150),
    labels=st.lists(st.integers(0, 2), min_size=1, max_size=3),
)
def test_after_pooling_and_one_linear_layer_it_is_the_positive_part_of_cam(
    classifier: Classifier, seed: int, height: int, width: int, labels: list[int]
) -> None:
    """The gradient of a mean over h * w positions is w / (h * w) at each of them."""
    images, classes = random_images(len(labels), height, width, seed), torch.tensor(labels)
    theirs = cam(classifier, images, classes)
    expected = theirs.clamp_min(0) / theirs[0].numel()
    torch.testing.assert_close(grad_cam(classifier, images, classes), expected, rtol=1e-4, atol=1e-6)


def test_what_speaks_against_the_class_is_not_in_the_map(classifier: Classifier) -> None:
    images, classes = random_images(4, 128, 128), torch.tensor([0, 1, 2, 0])
    against = cam(classifier, images, classes) < -1e-4
    assert against.any()
    assert not against.all()
    maps = grad_cam(classifier, images, classes)
    assert (maps[against] == 0).all()
    assert (maps >= 0).all()
    assert (maps > 0).any()


# ---------------------------------------------------------------------------------------------- what is left


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("recording", [True, False])
def test_the_classifier_is_left_as_it_was(trainable: bool, recording: bool) -> None:
    classifier = build("test_resnet").requires_grad_(trainable)
    before = {name: tensor.clone() for name, tensor in classifier.state_dict().items()}
    images = random_images(2, 64, 64)
    with torch.set_grad_enabled(recording):
        maps = grad_cam(classifier, images, torch.tensor([0, 1]))
        assert torch.is_grad_enabled() == recording
    assert maps.count_nonzero() > 0
    assert not maps.requires_grad
    assert images.grad is None
    for name, parameter in classifier.named_parameters():
        assert parameter.grad is None, name
        assert parameter.requires_grad == trainable, name
    for name, tensor in classifier.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert not classifier.training


def test_a_gradient_of_somebody_elses_stays_as_it_is() -> None:
    classifier = build("test_resnet")
    classifier(random_images(1, 64, 64)).sum().backward()
    before = {name: parameter.grad.clone() for name, parameter in classifier.named_parameters()}
    grad_cam(classifier, random_images(2, 64, 64), torch.tensor([0, 1]))
    for name, parameter in classifier.named_parameters():
        torch.testing.assert_close(parameter.grad, before[name], rtol=0, atol=0)


# ---------------------------------------------------------------------------------------------- other backbones


@pytest.mark.parametrize("backbone", ["vit_tiny_patch16_224", "torchvision/resnet18"])
def test_a_backbone_without_feature_maps_is_refused(backbone: str) -> None:
    with pytest.raises(UserError, match=backbone) as refused:
        grad_cam(build(backbone), random_images(1, 64, 64), torch.tensor([0]))
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_a_backbone_with_its_channels_last_is_refused() -> None:
    """The last features of Swin and MambaOut are (N, h, w, K)."""
    with pytest.raises(UserError, match="test_mambaout has no feature maps"):
        grad_cam(build("test_mambaout"), random_images(1, 64, 96), torch.tensor([0]))


# ---------------------------------------------------------------------------------------------- beside others


def test_grad_cam_is_torch_cams(planted, listened) -> None:
    images, classes = planted.images[:3].clone().requires_grad_(True), planted.classes[:3]
    model = listened(planted.classifier)
    with GradCAM(model, target_layer="layer") as extractor:
        logits = model(images)
        theirs = extractor(classes.tolist(), logits, normalized=False)[0].detach()
    ours = grad_cam(planted.classifier, images.detach(), classes)
    torch.testing.assert_close(min_max(ours), min_max(theirs), rtol=1e-4, atol=1e-4)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(grad_cam) > 0.8


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(grad_cam, two_planted) > 0.7
