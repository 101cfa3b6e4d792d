"""torchvision's classifiers by name, with the layers that the decoder uses."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from typing import Any

import torch
import torchvision
from torch import nn
from torchvision.models.feature_extraction import create_feature_extractor

from casmap.errors import UserError
from casmap.models.backbones import BACKBONE_SOURCES, Backbone, BackboneSource

PREFIX = "torchvision/"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of all its ImageNet weights
SIDE = 224  # of the blank image on which resolutions are measured


def build(name: str, classes: int, pretrained: bool) -> Backbone:
    """The network with random weights; its forward returns each stage by name and, last, "logits".

    Its parameters have torchvision's names, so that a safetensors file of torchvision's weights can be loaded. The
    weights that torchvision downloads are pickles, which casmap never opens.

    >>> outputs = build("torchvision/resnet18", 5, False).network.eval()(torch.zeros(1, 3, 64, 64))
    >>> {name: tuple(output.shape[1:]) for name, output in list(outputs.items())[-2:]}
    {'layer4.1': (512, 2, 2), 'logits': (5,)}
    """
    check_name(name)
    name = name.removeprefix(PREFIX)
    network = torchvision.models.get_model(name, weights=None, num_classes=classes).eval()
    shapes = _output_shapes(network)
    *trunk, head = shapes
    # Feature maps are (1, channels, h, h); transformers have another layout.
    maps = [layer for layer in trunk if len(shape := shapes[layer]) == 4 and shape[2] == shape[3] > 1]
    last_of = {shapes[layer][-1]: layer for layer in maps}
    if len(last_of) < 2 or shapes[head] != (1, classes):
        raise UserError(f"torchvision's {name} has no feature maps of several sizes: use the backbone of timm instead.")
    extractor = create_feature_extractor(network, {layer: layer for layer in last_of.values()} | {head: "logits"})
    return Backbone(extractor, MEAN, STD, SIDE)


def check_name(name: str) -> None:
    """Raise UserError, with similar names, if torchvision has no such classifier."""
    name, known = name.removeprefix(PREFIX), torchvision.models.list_models(torchvision.models)
    if name not in known:
        near = ", ".join(get_close_matches(name, known, n=5) or ["resnet50", "mobilenet_v2"])
        raise UserError(f"torchvision has no classifier {name!r}: choose another, such as {near}.")


def _output_shapes(network: nn.Module) -> dict[str, tuple[int, ...]]:
    """The output shapes of the trunk's layers for a blank image, in the order in which they run."""
    shapes: dict[str, tuple[int, ...]] = {}

    def record(name: str, _layer: nn.Module, _inputs: Any, output: Any) -> None:
        shapes[name] = tuple(output.shape) if isinstance(output, torch.Tensor) else ()

    hooks = [layer.register_forward_hook(partial(record, name)) for name, layer in _trunk(network)]
    with torch.no_grad():
        network(torch.zeros(1, 3, SIDE, SIDE))
    for hook in hooks:
        hook.remove()
    return shapes


def _trunk(network: nn.Module, above: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers of the network in sequence; blocks are not opened, except nn.Sequential."""
    for name, child in network.named_children():
        if type(child) is nn.Sequential:
            yield from _trunk(child, f"{above}{name}.")
        else:
            yield f"{above}{name}", child


BACKBONE_SOURCES.register("torchvision")(BackboneSource(
    owns=lambda name: name.startswith(PREFIX), build=build, check_name=check_name,
))  # fmt: skip
