"""m, the mapping: the paper's decoder on the stages of an encoder."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from casmap.model.belief import BELIEF_CHANNELS
from casmap.model.classifier import Classifier

FILTERS = 64  # of each 1x1 convolution, as in the paper's supplement


class Decoder(nn.Module):
    """Stages of an encoder in, a mask out.

    Each stage: 1x1 convolution with 64 filters, batch norm, ReLU, bilinear rescaling to a quarter of the picture. Then,
    on all of them concatenated: one 3x3 convolution, sigmoid, nearest upscaling to the picture's size.

    believes: the last of the stages is the classifier's belief, as `look_believing` gives it; the paper has none.

    forward: stages, each (N, channels_i, h_i, w_i), and the size (H, W) -> mask (N, 1, H, W) in 0..1.

    >>> decoder = Decoder([8, 16])
    >>> decoder([torch.zeros(2, 8, 15, 20), torch.zeros(2, 16, 8, 10)], (60, 80)).shape
    torch.Size([2, 1, 60, 80])
    """

    def __init__(self, stage_channels: Sequence[int], believes: bool = False) -> None:
        super().__init__()
        self.believes = believes
        if believes:
            stage_channels = [*stage_channels, BELIEF_CHANNELS]
        self.lateral = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, FILTERS, 1, bias=False), nn.BatchNorm2d(FILTERS), nn.ReLU())
            for channels in stage_channels
        )
        self.mask = nn.Conv2d(FILTERS * len(stage_channels), 1, 3, padding=1)

    def forward(self, stages: Sequence[Tensor], size: Sequence[int]) -> Tensor:
        """The mask of a picture of `size`, from its stages."""
        quarter = [(side + 3) // 4 for side in size]
        hidden = [
            interpolate(lateral(stage), quarter, mode="bilinear", align_corners=False)
            for lateral, stage in zip(self.lateral, stages, strict=True)
        ]
        mask = torch.sigmoid(self.mask(torch.cat(hidden, dim=1)))
        return interpolate(mask, list(size), mode="nearest")


class Mapping(nn.Module):
    """m(x): a decoder on the classifier's own stages (shared encoder), or on those of an encoder of its own.

    The shared encoder is not trained by the score: its stages come in detached. One of its own is, unless it is fixed.
    """

    def __init__(self, stage_channels: Sequence[int], encoder: Classifier | None = None, fixed: bool = False) -> None:
        super().__init__()
        self.decoder = Decoder(stage_channels)
        self.encoder = encoder
        self.fixed = fixed
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
                _, stages = self.encoder.look(images)
        mask: Tensor = self.decoder(stages, images.shape[-2:])
        return mask
