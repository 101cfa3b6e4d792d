"""torchvision's classifiers by name, with the layers that feed the decoder."""

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
SIDE = 224  # of the blank picture on which resolutions are read


def build(name: str, classes: int, pretrained: bool) -> Backbone:
    """The network, random weights; its forward gives each stage by its name and, last, "logits".

    Its parameters have torchvision's own names, so that a file of torchvision's weights fits. Those that torchvision
    fetches are pickles, which casmap never opens.

    >>> outputs = build("torchvision/resnet18", 5, False).network.eval()(torch.zeros(1, 3, 64, 64))
    >>> {name: tuple(output.shape[1:]) for name, output in list(outputs.items())[-2:]}
    {'layer4.1': (512, 2, 2), 'logits': (5,)}
    """
    name = name.removeprefix(PREFIX)
    known = torchvision.models.list_models(torchvision.models)
    if name not in known:
        near = ", ".join(get_close_matches(name, known, n=5) or ["resnet50", "mobilenet_v2"])
        raise UserError(f"torchvision knows no classifier named {name!r}; among those it knows: {near}.")
    network = torchvision.models.get_model(name, weights=None, num_classes=classes).eval()
    shapes = _output_shapes(network)
    *trunk, head = shapes
    # Maps are (1, channels, h, h): transformers have channels elsewhere.
    maps = [layer for layer in trunk if len(shape := shapes[layer]) == 4 and shape[2] == shape[3] > 1]
    last_of = {shapes[layer][-1]: layer for layer in maps}
    if len(last_of) < 2 or shapes[head] != (1, classes):
        raise UserError(f"torchvision's {name} does not show layers of several sizes: take timm's, by its timm name.")
    shown = create_feature_extractor(network, {layer: layer for layer in last_of.values()} | {head: "logits"})
    return Backbone(shown, MEAN, STD, SIDE)


def _output_shapes(network: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes that come out of the trunk's layers for one blank picture, in the order in which they run."""
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, _layer: nn.Module, _inputs: Any, output: Any) -> None:
        shapes[name] = tuple(output.shape) if isinstance(output, torch.Tensor) else ()

    hooks = [layer.register_forward_hook(partial(note, name)) for name, layer in _trunk(network)]
    with torch.no_grad():
        network(torch.zeros(1, 3, SIDE, SIDE))
    for hook in hooks:
        hook.remove()
    return shapes


def _trunk(network: nn.Module, above: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers that follow one another: a block's own layers are its own affair."""
    for name, child in network.named_children():
        if type(child) is nn.Sequential:
            yield from _trunk(child, f"{above}{name}.")
        else:
            yield f"{above}{name}", child


BACKBONE_SOURCES.register("torchvision")(BackboneSource(owns=lambda name: name.startswith(PREFIX), build=build))
