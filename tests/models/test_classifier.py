"""f on the backbones people use: one pass gives the same logits, and the stages that the decoder needs."""

import pytest
import timm
import torch

from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.models.decoder import Mapping

# By hand from the architectures: the channels of the last layer before each halving, at a half, a quarter, ... in size.
FROM_HALF = {
    "test_resnet": [32, 32, 48, 192, 96],
    "resnet18": [64, 64, 128, 256, 512],
    "resnet50": [64, 256, 512, 1024, 2048],
    "efficientnet_lite0": [16, 24, 40, 112, 320],
    "mobilenetv3_small_100": [16, 16, 24, 48, 576],
    "regnetx_002": [32, 24, 56, 152, 368],
}
CNNS = [*FROM_HALF, "convnext_atto"]
VIT = "vit_tiny_patch16_224"


@pytest.fixture(scope="module")
def build():
    built: dict[str, Classifier] = {}

    def of(backbone: str) -> Classifier:
        if backbone not in built:
            torch.manual_seed(0)
            built[backbone] = Classifier(backbone, classes=3).eval()
        return built[backbone]

    return of


def _images(height: int, width: int) -> torch.Tensor:
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(1))


SIZES = [(name, size) for name in CNNS for size in ((64, 64), (75, 101))] + [(VIT, (64, 64)), (VIT, (96, 96))]


@pytest.mark.parametrize(("backbone", "size"), SIZES)
@torch.no_grad()
def test_a_look_gives_the_logits_of_a_plain_pass(build, backbone, size) -> None:
    classifier, images = build(backbone), _images(*size)
    logits, _ = classifier.forward_stages(images)
    assert logits.shape == (2, 3)
    assert logits.std() > 0  # two photos, three classes: not all alike
    torch.testing.assert_close(logits, classifier(images))
    torch.testing.assert_close(logits, classifier.network(images))


@pytest.mark.parametrize(("backbone", "size"), SIZES)
@torch.no_grad()
def test_the_decoder_makes_a_mask_of_the_photos_size_on_every_backbone(build, backbone, size) -> None:
    classifier, images = build(backbone), _images(*size)
    torch.manual_seed(0)
    masks = Mapping(classifier.stage_channels)(images, classifier.forward_stages(images)[1])
    assert masks.shape == (2, 1, *size)
    assert 0 <= masks.min() < masks.max() <= 1


@pytest.mark.parametrize("backbone", FROM_HALF)
@torch.no_grad()
def test_stages_are_the_last_layers_before_each_halving(build, backbone) -> None:
    _, stages = build(backbone).forward_stages(_images(64, 64))
    sides = (32, 16, 8, 4, 2)
    assert [tuple(stage.shape[1:]) for stage in stages] == [
        (channels, side, side) for channels, side in zip(FROM_HALF[backbone], sides, strict=True)
    ]


@torch.no_grad()
def test_convnext_begins_at_a_quarter(build) -> None:
    _, stages = build("convnext_atto").forward_stages(_images(64, 64))
    assert [tuple(stage.shape[1:]) for stage in stages] == [(40, 16, 16), (80, 8, 8), (160, 4, 4), (320, 2, 2)]


@pytest.mark.parametrize("side", [64, 96])
@torch.no_grad()
def test_a_vit_shows_four_evenly_spaced_blocks(build, side) -> None:
    classifier = build(VIT)
    seen: list[torch.Tensor] = []
    hooks = [
        classifier.network.blocks[number].register_forward_hook(lambda _m, _i, out: seen.append(out))
        for number in (2, 5, 8, 11)  # of twelve
    ]
    _, stages = classifier.forward_stages(_images(side, side))
    for hook in hooks:
        hook.remove()
    patches = side // 16
    assert [tuple(stage.shape[1:]) for stage in stages] == [(192, patches, patches)] * 4
    for stage, block in zip(stages, seen, strict=True):
        without_class_token = block[:, 1:].transpose(1, 2).reshape(stage.shape)
        torch.testing.assert_close(stage, without_class_token)


@torch.no_grad()
def test_the_stages_of_a_resnet_are_what_its_layers_put_out(build) -> None:
    network, images = build("resnet18").network, _images(64, 64)
    x = network.act1(network.bn1(network.conv1(images)))
    by_hand = [x]
    x = network.maxpool(x)
    for layer in (network.layer1, network.layer2, network.layer3, network.layer4):
        x = layer(x)
        by_hand.append(x)
    for stage, wanted in zip(build("resnet18").forward_stages(images)[1], by_hand, strict=True):
        torch.testing.assert_close(stage, wanted)


@pytest.mark.parametrize("backbone", [*CNNS, VIT])
@torch.no_grad()
def test_the_channels_promised_are_those_that_come(build, backbone) -> None:
    classifier = build(backbone)
    _, stages = classifier.forward_stages(_images(64, 64))
    assert classifier.stage_channels == [stage.shape[1] for stage in stages]


def test_a_new_classifier_is_in_training_mode_and_has_seen_nothing() -> None:
    classifier = Classifier("test_resnet", 3)
    assert all(module.training for module in classifier.modules())
    untouched = timm.create_model("test_resnet", num_classes=3).state_dict()
    for name, buffer in classifier.network.named_buffers():
        torch.testing.assert_close(buffer, untouched[name])  # running means are 0, variances 1


def test_the_normalisation_is_the_backbones_own() -> None:
    assert Classifier("resnet18", 3).mean == (0.485, 0.456, 0.406)
    assert Classifier("resnet18", 3).std == (0.229, 0.224, 0.225)
    assert Classifier(VIT, 3).mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("name", ["resnet5O", "no such thing", "", "../resnet50"])
def test_an_unknown_backbone_is_one_sentence(name) -> None:
    with pytest.raises(UserError) as caught:
        Classifier(name, 3)
    sentence = str(caught.value)
    assert repr(name) in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


def test_a_slip_in_a_name_is_answered_with_names_that_exist() -> None:
    with pytest.raises(UserError) as caught:
        Classifier("convnext_atoto", 3)
    offered = str(caught.value).split("knows: ")[1].rstrip(".").split(", ")
    assert offered
    assert all(timm.is_model(name) for name in offered)
    assert any("convne" in name for name in offered)


def test_a_backbone_that_hides_its_stages_is_refused() -> None:
    with pytest.raises(UserError, match=r"'densenet121' does not show its intermediate features"):
        Classifier("densenet121", 3)


def test_a_tag_of_weights_that_timm_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"resnet18\.foo"):
        Classifier("resnet18.foo", 3)
