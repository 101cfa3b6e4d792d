"""Networks that lose what they learned, from the output to the input."""

import torch

from casmap.models.cascade import layers_from_output, randomised
from casmap.models.classifier import Classifier


def test_the_layers_are_all_parts_with_weights_from_the_head_to_the_stem() -> None:
    network = Classifier("test_resnet", 3).network
    layers = layers_from_output(network)
    assert layers[0] == "fc"
    assert layers[-1] == "conv1" or layers[-1].startswith("conv1")
    named = {name for layer in layers for name, _ in network.get_submodule(layer).named_parameters(layer)}
    assert named == {name for name, _ in network.named_parameters()}


def test_only_the_layers_named_change_and_the_network_stays_as_it_was() -> None:
    torch.manual_seed(0)
    network = Classifier("test_resnet", 3).eval().network
    before = {name: value.clone() for name, value in network.state_dict().items()}
    layers = layers_from_output(network)[:2]
    found = randomised(network, layers)
    for name, value in found.state_dict().items():
        inside = any(name.startswith(f"{layer}.") for layer in layers)
        assert inside or torch.equal(value, before[name])
        assert torch.equal(network.state_dict()[name], before[name])
    assert not torch.equal(found.fc.weight, network.fc.weight)


def test_the_same_seed_gives_the_same_weights_and_leaves_the_generator_alone() -> None:
    network = Classifier("test_resnet", 3).network
    torch.manual_seed(5)
    first = randomised(network, ["fc"], seed=1)
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    assert torch.equal(first.fc.weight, randomised(network, ["fc"], seed=1).fc.weight)
    assert not torch.equal(first.fc.weight, randomised(network, ["fc"], seed=2).fc.weight)
