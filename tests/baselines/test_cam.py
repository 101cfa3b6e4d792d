"""CAM against loops, against the logits that it explains, and where the place of the evidence is known."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchcam.methods import CAM

from casmap.baselines.cam import cam
from casmap.errors import UserError
from casmap.models.class_activation import last_features, min_max
from casmap.models.classifier import Classifier

SIDE = 128  # 4 x 4 positions


def build(backbone: str, classes: int = 3) -> Classifier:
    torch.manual_seed(0)
    return Classifier(backbone, classes).eval()


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    """Random weights; the bias too, which timm would start at 0."""
    classifier = build("test_resnet")
    torch.nn.init.normal_(classifier.network.get_classifier().bias)
    return classifier


def random_images(count: int, height: int, width: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------------------------------------- the formula


def test_a_map_is_the_weighted_sum_of_the_feature_maps(classifier: Classifier) -> None:
    images, classes = random_images(3, 64, 96), [2, 0, 2]
    maps = cam(classifier, images, torch.tensor(classes))
    with torch.no_grad():
        features = classifier.network.forward_features(images).tolist()
    weights = classifier.network.fc.weight.tolist()
    assert maps.shape == (3, 2, 3)
    for n, label in enumerate(classes):
        for y in range(2):
            for x in range(3):
                expected = sum(weights[label][k] * features[n][k][y][x] for k in range(len(weights[label])))
                assert maps[n, y, x].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_class_chooses_the_map(classifier: Classifier) -> None:
    images = random_images(1, 64, 64).expand(3, -1, -1, -1)
    maps = cam(classifier, images, torch.tensor([0, 1, 2]))
    assert not torch.allclose(maps[0], maps[1], atol=1e-3)
    assert not torch.allclose(maps[1], maps[2], atol=1e-3)
    torch.testing.assert_close(cam(classifier, images, torch.tensor([2, 2, 0])), maps[[2, 2, 0]])


def test_the_features_and_logits_are_those_of_the_classifier(classifier: Classifier) -> None:
    images = random_images(2, 64, 64)
    with torch.no_grad():
        features, logits = last_features(classifier, images)
        torch.testing.assert_close(features, classifier.forward_stages(images)[1][-1])
        torch.testing.assert_close(logits, classifier(images))


@pytest.mark.parametrize("backbone", ["test_resnet", "test_efficientnet", "resnet18", "lite0"])
def test_the_mean_of_a_map_and_the_bias_are_the_logit(backbone: str) -> None:
    classifier = build(backbone)
    torch.nn.init.normal_(classifier.network.get_classifier().bias)
    images, classes = random_images(2, 64, 96), torch.tensor([1, 2])
    explained(classifier, images, classes)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    height=st.integers(2, 5).map(lambda n: 32 * n),
    width=st.integers(32, 150),
    labels=st.lists(st.integers(0, 2), min_size=1, max_size=3),
)
def test_the_mean_of_a_map_and_the_bias_are_the_logit_of_any_picture(
    classifier: Classifier, seed: int, height: int, width: int, labels: list[int]
) -> None:
    explained(classifier, random_images(len(labels), height, width, seed), torch.tensor(labels))


def explained(classifier: Classifier, images: torch.Tensor, classes: torch.Tensor) -> None:
    """Assert the law of CAM: what all places say together is what the classifier says."""
    with torch.no_grad():
        logits = classifier(images)[range(len(images)), classes]
    bias = classifier.network.get_classifier().bias.detach()[classes]
    torch.testing.assert_close(cam(classifier, images, classes).mean(dim=(1, 2)) + bias, logits, rtol=1e-3, atol=1e-4)


def test_nothing_is_left_to_be_differentiated(classifier: Classifier) -> None:
    maps = cam(classifier, random_images(1, 64, 64), torch.tensor([0]))
    assert not maps.requires_grad
    assert all(parameter.grad is None for parameter in classifier.parameters())


# ---------------------------------------------------------------------------------------------- known evidence


def only_channel(channel: int) -> Classifier:
    """A classifier whose class 1 is one channel and nothing else; classes 0 and 2 are nothing at all."""
    classifier = build("test_resnet")
    head = classifier.network.get_classifier()
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    with torch.no_grad():
        head.weight[1, channel] = 1
    return classifier


@pytest.mark.parametrize("channel", [0, 40, 95])
def test_where_one_channel_decides_the_map_is_that_channel(channel: int) -> None:
    classifier, images = only_channel(channel), random_images(2, SIDE, SIDE)
    with torch.no_grad():
        decides = classifier.forward_stages(images)[1][-1][:, channel]
    maps = cam(classifier, images, torch.tensor([1, 1]))
    torch.testing.assert_close(maps, decides)
    assert maps.flatten(1).argmax(dim=1).tolist() == decides.flatten(1).argmax(dim=1).tolist()
    assert cam(classifier, images, torch.tensor([0, 2])).count_nonzero() == 0


def striped(corner: int) -> torch.Tensor:
    """A grey picture with stripes in one quarter of it: (1, 3, SIDE, SIDE)."""
    picture = torch.zeros(1, 3, SIDE, SIDE)
    half = SIDE // 2
    top, left = half * (corner // 2), half * (corner % 2)
    picture[:, :, top : top + half, left : left + half : 4] = 3.0
    return picture


def quarters(maps: torch.Tensor) -> torch.Tensor:
    """The mean of each quarter of a map, in reading order: (1, h, w) -> (4,)."""
    return torch.nn.functional.adaptive_avg_pool2d(maps, 2).flatten()


def test_stripes_are_found_wherever_it_is() -> None:
    """The class is the channel that stripes in the first quarter raise most; the others are never looked at before."""
    plain = build("test_resnet")
    with torch.no_grad():
        seen, blank = (plain.forward_stages(picture)[1][-1] for picture in (striped(0), torch.zeros(1, 3, SIDE, SIDE)))
    raised = (seen - blank)[0, :, :2, :2].mean(dim=(1, 2))
    classifier = only_channel(int(raised.argmax()))
    for corner in range(4):
        assert quarters(cam(classifier, striped(corner), torch.tensor([1]))).argmax() == corner


# ---------------------------------------------------------------------------------------------- other heads


@pytest.mark.parametrize(
    "backbone",
    [
        "vit_tiny_patch16_224",  # no feature maps
        "torchvision/resnet18",  # not timm's
        "test_convnext",  # a norm between pooling and the linear layer
        "mobilenetv3_small_100",  # a convolution between them
        "test_mambaout",  # channels last
    ],
)
def test_a_head_that_is_not_pooling_and_one_linear_layer_is_refused(backbone: str) -> None:
    with pytest.raises(UserError) as refused:
        cam(build(backbone), random_images(2, 64, 64), torch.tensor([0, 1]))
    sentence = str(refused.value)
    assert backbone in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


# ---------------------------------------------------------------------------------------------- beside others


def test_cam_is_torch_cams(planted, listened) -> None:
    images, classes = planted.images[:3], planted.classes[:3]
    model = listened(planted.classifier)
    with CAM(model, target_layer="layer", fc_layer="classifier.network.fc") as extractor, torch.no_grad():
        model(images)
        theirs = extractor(classes.tolist(), normalized=False)[0]
    ours = cam(planted.classifier, images, classes)
    torch.testing.assert_close(min_max(ours), min_max(theirs), rtol=1e-4, atol=1e-4)


def test_it_finds_a_planted_object(planted) -> None:
    assert planted.finds(cam) > 0.8


def test_of_two_planted_objects_it_finds_the_one_that_it_is_asked_for(planted, two_planted) -> None:
    assert planted.tells_apart(cam, two_planted) > 0.7
