"""timm's backbones with intermediate features; weights from the local cache or from the hub."""

import os
import socket
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlparse

import timm
from huggingface_hub import constants, try_to_load_from_cache

from casmap.errors import UserError
from casmap.io.reading import shown
from casmap.models.backbones import BACKBONE_SOURCES, WHEELS, Backbone, BackboneSource

TIMEOUT = 3.0  # seconds; the hub's client would retry for most of a minute


def build(name: str, classes: int, pretrained: bool) -> Backbone:
    """The timm model, for images of any size if the architecture allows it."""
    check_name(name)
    network: Any
    try:
        # Transformers need this argument to accept other sizes; other architectures do not have it.
        network = timm.create_model(name, pretrained=pretrained, num_classes=classes, dynamic_img_size=True)
    except TypeError:
        network = timm.create_model(name, pretrained=pretrained, num_classes=classes)
    except RuntimeError as error:  # unknown weights in the name, such as resnet18.a1_in1k
        raise UserError(f"timm has no backbone {shown(name)}: {str(error).splitlines()[0].rstrip('.')}.") from error
    if not hasattr(network, "forward_intermediates"):
        raise UserError(f"The timm backbone {name!r} does not return intermediate features: choose another.")
    config, stages = network.pretrained_cfg, _stages_before_downscaling(network.feature_info)
    return Backbone(network, tuple(config["mean"]), tuple(config["std"]), config["input_size"][-1], stages)


def check_name(name: str) -> None:
    """Raise UserError, with similar names, if neither timm nor a wheel has such an architecture."""
    if not timm.is_model(name.split(".")[0]):
        near = ", ".join(get_close_matches(name, [*WHEELS, *timm.list_models()], n=5) or ["lite0", "resnet50"])
        raise UserError(f"There is no backbone {shown(name)}: choose another, such as {near}.")


def _stages_before_downscaling(feature_info: Any) -> list[int]:
    """Indices of the features that are followed by downscaling: the last of each resolution.

    A backbone with a single resolution (a ViT) has none; four evenly spaced blocks are used instead.

    >>> _stages_before_downscaling([{"reduction": r} for r in (2, 4, 8, 8, 16, 32)])
    [0, 1, 3, 4, 5]
    >>> _stages_before_downscaling([{"reduction": 16}] * 12)
    [2, 5, 8, 11]
    """
    reductions = [info["reduction"] for info in feature_info]
    last_of = {reduction: index for index, reduction in enumerate(reductions)}
    if len(last_of) > 1:
        return sorted(last_of.values())
    return [len(reductions) * (quarter + 1) // 4 - 1 for quarter in range(4)]


def _config(name: str) -> Any:
    try:
        return timm.get_pretrained_cfg(name)  # None: unknown architecture
    except RuntimeError as error:
        raise UserError(f"timm has no backbone {shown(name)}: {str(error).rstrip('.')}.") from error


def _weights_reachable(name: str) -> bool:
    config = _config(name)
    if config is None or not config.has_weights:
        return False
    files = ("model.safetensors", "pytorch_model.bin")
    if config.hf_hub_id and any(isinstance(try_to_load_from_cache(config.hf_hub_id, file), str) for file in files):
        return True
    if any(os.environ.get(proxy) for proxy in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True  # only the download itself shows whether the proxy works
    try:
        socket.create_connection((urlparse(constants.ENDPOINT).hostname or "", 443), timeout=TIMEOUT).close()
    except OSError:
        return False
    return True


def _missing_weights(name: str) -> str:
    check_name(name)
    return BackboneSource.missing_weights(name)


BACKBONE_SOURCES.register("timm")(BackboneSource(
    owns=lambda name: True, build=build, check_name=check_name, weights_reachable=_weights_reachable,
    missing_weights=_missing_weights, origin="timm's pretrained weights",
    pretrained_classes=lambda name: getattr(_config(name), "num_classes", 1000),
))  # fmt: skip
