"""The trunk and the tail of a classifier: together they are the classifier."""

import copy

import pytest
import torch

from casmap.errors import UnsupportedBackbone
from casmap.models.classifier import Classifier
from casmap.models.split import Tail, Trunk, split

HEADS = {  # by backbone: the linear layer that follows average pooling, if the head is one
    "test_resnet": "fc",
    "test_efficientnet": "classifier",
    "test_byobnet": "head.fc",
    "test_convnext": None,  # a norm between pooling and linear layer
    "mobilenetv3_small_050": None,  # a convolution there
    "torchvision/resnet18": "fc",
    "torchvision/mobilenet_v2": "classifier.1",
    "torchvision/shufflenet_v2_x0_5": "fc",  # some of its layers return two tensors
}


def _split(backbone: str) -> tuple[Classifier, Trunk, Tail]:
    torch.manual_seed(0)
    classifier = Classifier(backbone, 5).eval()
    return classifier, *split(classifier)


def _images(side: int, count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("backbone", HEADS)
def test_trunk_and_tail_give_the_logits_of_the_classifier_exactly(backbone) -> None:
    classifier, trunk, tail = _split(backbone)
    for side in (64, 96):
        images = _images(side)
        with torch.no_grad():
            features, stages = trunk(images)
            before = features.clone()
            logits = tail.eval()(features)
            wanted, wanted_stages = classifier.forward_stages(images)
        assert features.shape[-2:] == (side // 16, side // 16)
        assert torch.equal(logits, wanted)
        assert torch.equal(features, before)  # no layer of the tail works in place on them
        assert all(torch.equal(one, other) for one, other in zip(stages, wanted_stages, strict=True))


@pytest.mark.parametrize("backbone", HEADS)
def test_a_head_is_found_if_it_is_average_pooling_and_a_linear_layer(backbone) -> None:
    _, trunk, tail = _split(backbone)
    assert tail.head == HEADS[backbone]
    if tail.head is not None:
        linear = tail.layers.get_submodule(tail.head)
        with torch.no_grad():
            logits, last = tail.eval().layers(trunk(_images(64))[0])
            torch.testing.assert_close(linear(last.mean(dim=(2, 3))), logits)


def test_the_stage_is_the_last_block_even_if_blocks_before_it_return_the_same() -> None:
    """New residual blocks of a ResNet return their input: the last norm of each has weight 0."""
    classifier, _, tail = _split("resnet26")
    assert not any(name.startswith("layers.layer3") for name in tail.state_dict())
    wanted = {f"layers.{name}" for name in classifier.network.state_dict() if name.startswith(("layer4", "fc"))}
    assert set(tail.state_dict()) == wanted


def test_the_tail_has_weights_of_its_own() -> None:
    classifier, trunk, tail = _split("test_resnet")
    before = copy.deepcopy(classifier.state_dict())
    own = {parameter.data_ptr() for parameter in tail.parameters()}
    assert not own & {parameter.data_ptr() for parameter in classifier.parameters()}
    with torch.no_grad():
        for parameter in tail.parameters():
            parameter += 1
        tail.train()(trunk(_images(64))[0])
    assert all(torch.equal(tensor, before[name]) for name, tensor in classifier.state_dict().items())
    assert trunk.classifier is classifier


def test_the_trunk_runs_in_eval_mode_and_without_gradients() -> None:
    classifier, trunk, _ = _split("test_resnet")
    before = copy.deepcopy(classifier.state_dict())
    classifier.train()
    features, stages = trunk(_images(64))
    assert not features.requires_grad
    assert not any(stage.requires_grad for stage in stages)
    assert all(torch.equal(tensor, before[name]) for name, tensor in classifier.state_dict().items())  # batch norms


def test_a_labels_activation_by_hand() -> None:
    _, trunk, tail = _split("test_resnet")
    features, labels = trunk(_images(64))[0], torch.tensor([0, 3, 4])
    with torch.no_grad():
        logits, found = tail.eval().forward_activation(features, labels)
        _, last = tail.layers(features)
    weight = tail.layers.fc.weight.detach()
    for image, label in enumerate(labels):
        places = [float(weight[label] @ last[image, :, row, column]) for row in range(2) for column in range(2)]
        assert float(found[image]) == pytest.approx(sum(max(0.0, place) for place in places) / 4, rel=1e-5, abs=1e-7)
    assert torch.equal(logits, tail(features))


@pytest.mark.parametrize("backbone", ["test_vit", "test_mambaout"])
def test_a_backbone_that_cannot_be_split_is_one_sentence(backbone) -> None:
    with pytest.raises(UnsupportedBackbone, match=rf"^{backbone} cannot be split .* set erase='pixels'\.$"):
        split(Classifier(backbone, 2))
