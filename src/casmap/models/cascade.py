"""Networks whose weights are replaced by random ones, from the output to the input: Adebayo et al.'s sanity check."""

import copy
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def layers_from_output(network: nn.Module) -> list[str]:
    """The names of the parts of a network that have weights, the last first; a sequence counts as its elements.

    >>> layers_from_output(nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU())))
    ['2.0', '0']
    """
    return list(_layers(network))[::-1]


def _layers(network: nn.Module, prefix: str = "") -> Iterator[str]:
    for name, part in network.named_children():
        if isinstance(part, nn.Sequential):
            yield from _layers(part, f"{prefix}{name}.")
        elif any(True for _ in part.parameters()):
            yield f"{prefix}{name}"


def randomised(network: Network, layers: list[str], seed: int = 0) -> Network:
    """A copy of a network in which these layers have new weights, as before training."""
    found = copy.deepcopy(network)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for layer in layers:
            for part in found.get_submodule(layer).modules():
                if callable(reset := getattr(part, "reset_parameters", None)):
                    reset()
    return found
