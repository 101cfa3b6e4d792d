"""m, the mapping: the paper's decoder on the stages of an encoder."""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate

from casmap.models.class_activation import CAM_CHANNELS
from casmap.models.classifier import Classifier

FILTERS = 64  # of each 1x1 convolution, as in the paper's supplement


class Decoder(nn.Module):
    """Computes a mask from the stages of an encoder.

    Each stage: 1x1 convolution with 64 filters, batch norm, ReLU, bilinear rescaling to a quarter of the image's size.
    Then, on their concatenation: one 3x3 convolution, sigmoid, nearest upscaling to the image's size.

    with_cam: the last stage is the probability-weighted class activation map, which the paper does not have.

    forward: stages, each (N, channels_i, h_i, w_i), and the size (H, W) -> mask (N, 1, H, W) in 0..1.

    >>> decoder = Decoder([8, 16])
    >>> decoder([torch.zeros(2, 8, 15, 20), torch.zeros(2, 16, 8, 10)], (60, 80)).shape
    torch.Size([2, 1, 60, 80])
    """

    def __init__(self, stage_channels: Sequence[int], with_cam: bool = False) -> None:
        super().__init__()
        self.with_cam = with_cam
        stage_channels = [*stage_channels, CAM_CHANNELS] if with_cam else stage_channels
        self.lateral = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, FILTERS, 1, bias=False), nn.BatchNorm2d(FILTERS), nn.ReLU())
            for channels in stage_channels
        )
        self.mask = MaskFilter(len(stage_channels))

    def forward(self, stages: Sequence[Tensor], size: Sequence[int]) -> Tensor:
        """The mask (N, 1, H, W) of images of `size`, from their stages."""
        quarter = [(side + 3) // 4 for side in size]
        hidden = [lateral(stage) for lateral, stage in zip(self.lateral, stages, strict=True)]
        return interpolate(torch.sigmoid(self.mask(hidden, quarter)), list(size), mode="nearest")


class MaskFilter(nn.Conv2d):
    """A 3x3 convolution of the rescaled, concatenated stages that never builds this tensor, the largest of the network.

    A 3x3 convolution is the sum of nine shifted 1x1 convolutions, and a 1x1 convolution commutes with the rescaling,
    which treats all channels alike. So 9 channels of each stage are rescaled instead of 64.

    forward: hidden stages, each (N, 64, h_i, w_i), and a size (h, w) -> (N, 1, h, w).
    """

    def __init__(self, stages: int) -> None:
        super().__init__(FILTERS * stages, 1, 3, padding=1)

    def forward(self, hidden: Sequence[Tensor], size: Sequence[int]) -> Tensor:  # type: ignore[override]
        """The logits of the mask (N, 1, *size)."""
        taps = self.weight.view(len(hidden), FILTERS, 9, 1, 1).transpose(1, 2)  # (stages, 9, 64, 1, 1)
        small = [conv2d(stage, tap) for stage, tap in zip(hidden, taps, strict=True)]
        summed = reduce(torch.add, [interpolate(x, size, mode="bilinear", align_corners=False) for x in small])
        shifts = torch.eye(9, dtype=summed.dtype, device=summed.device).view(1, 9, 3, 3)
        return conv2d(summed, shifts, self.bias, padding=1)


class Mapping(nn.Module):
    """m(x): a decoder on the classifier's stages (shared encoder) or on those of its own encoder.

    The score does not train a shared encoder, whose stages are detached. It trains an own encoder unless that is fixed.
    """

    def __init__(self, stage_channels: Sequence[int], encoder: Classifier | None = None, fixed: bool = False) -> None:
        super().__init__()
        self.decoder, self.encoder, self.fixed = Decoder(stage_channels), encoder, fixed
        if encoder is not None and fixed:
            encoder.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> "Mapping":
        """Set the training mode; a fixed encoder stays in eval mode."""
        super().train(mode)
        if self.encoder is not None and self.fixed:
            self.encoder.eval()
        return self

    def forward(self, images: Tensor, stages: Sequence[Tensor]) -> Tensor:
        """Masks (N, 1, H, W) of images (N, 3, H, W); stages: those of the classifier for the same images."""
        if self.encoder is None:
            stages = [stage.detach() for stage in stages]
        else:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.fixed):
                _, stages = self.encoder.forward_stages(images)
        mask: Tensor = self.decoder(stages, images.shape[-2:])
        return mask
