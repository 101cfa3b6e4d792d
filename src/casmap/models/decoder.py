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
    """Stages of an encoder in, a mask out.

    Each stage: 1x1 convolution with 64 filters, batch norm, ReLU, bilinear rescaling to a quarter of the picture. Then,
    on all of them concatenated: one 3x3 convolution, sigmoid, nearest upscaling to the picture's size.

    with_cam: the last stage is the probability-weighted class activation map; the paper has none.

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
        """The mask of a picture of `size`, from its stages."""
        quarter = [(side + 3) // 4 for side in size]
        hidden = [lateral(stage) for lateral, stage in zip(self.lateral, stages, strict=True)]
        return interpolate(torch.sigmoid(self.mask(hidden, quarter)), list(size), mode="nearest")


class MaskFilter(nn.Conv2d):
    """One 3x3 filter over stages that are rescaled and concatenated, without making that tensor, the largest of all.

    The filter sums nine 1x1 convolutions, each shifted; and a 1x1 convolution may as well come before the rescaling,
    which treats all channels alike. So nine channels of a stage are rescaled instead of 64.

    forward: hidden stages, each (N, 64, h_i, w_i), and a size (h, w) -> (N, 1, h, w).
    """

    def __init__(self, stages: int) -> None:
        super().__init__(FILTERS * stages, 1, 3, padding=1)

    def forward(self, hidden: Sequence[Tensor], size: Sequence[int]) -> Tensor:  # type: ignore[override]
        """The logits of a mask of `size`."""
        taps = self.weight.view(len(hidden), FILTERS, 9, 1, 1).transpose(1, 2)  # (stages, 9, 64, 1, 1)
        small = [conv2d(stage, tap) for stage, tap in zip(hidden, taps, strict=True)]
        summed = reduce(torch.add, [interpolate(x, size, mode="bilinear", align_corners=False) for x in small])
        shifts = torch.eye(9, dtype=summed.dtype, device=summed.device).view(1, 9, 3, 3)
        return conv2d(summed, shifts, self.bias, padding=1)


class Mapping(nn.Module):
    """m(x): a decoder on the classifier's own stages (shared encoder), or on those of an encoder of its own.

    The shared encoder is not trained by the score: its stages come in detached. One of its own is, unless it is fixed.
    """

    def __init__(self, stage_channels: Sequence[int], encoder: Classifier | None = None, fixed: bool = False) -> None:
        super().__init__()
        self.decoder, self.encoder, self.fixed = Decoder(stage_channels), encoder, fixed
        if encoder is not None and fixed:
            encoder.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> "Mapping":
        """Set the mode of all that is trained: the batch norms of a fixed encoder stay as they are."""
        super().train(mode)
        if self.encoder is not None and self.fixed:
            self.encoder.eval()
        return self

    def forward(self, images: Tensor, stages: Sequence[Tensor]) -> Tensor:
        """Masks (N, 1, H, W) of images (N, 3, H, W); `stages` are the classifier's for the same images."""
        if self.encoder is None:
            stages = [stage.detach() for stage in stages]
        else:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.fixed):
                _, stages = self.encoder.forward_stages(images)
        mask: Tensor = self.decoder(stages, images.shape[-2:])
        return mask
