"""What a mapping file holds: encoder and decoder, one forward pass from photos to masks."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder


class SaliencyNetwork(nn.Module):
    """Photos in, masks out; and the class, where the encoder is a classifier's.

    forward: normalised images (N, 3, H, W) -> masks (N, 1, H, W) in 0..1, logits (N, classes).
    """

    concurrent = False  # torch's threads are shared by all that call it

    def __init__(self, encoder: Classifier, decoder: Decoder, classes: list[str], predicts: bool) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.mean, self.std = encoder.mean, encoder.std  # of the pixels, from 0 to 1, for which the network is made
        self.classes = classes
        self.predicts = predicts  # a separate encoder was never trained to tell classes

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Masks and logits of `images`, in one pass."""
        forward = self.encoder.forward_stages_with_cam if self.decoder.with_cam else self.encoder.forward_stages
        logits, stages = forward(images)
        return self.decoder(stages, images.shape[-2:]), logits

    def run(self, images: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Masks (N, H, W) and logits (N, classes) of images (N, 3, H, W), as arrays."""
        device = next(self.parameters()).device
        with torch.inference_mode():
            # Channels last: 1.2 times as fast on a CPU (benchmarks/layout.py).
            pictures = torch.from_numpy(images).to(device, memory_format=torch.channels_last)
            masks, logits = self.eval()(pictures)
        return masks[:, 0].cpu().numpy(), logits.cpu().numpy()

    def about(self) -> dict[str, Any]:
        """What a file must say for the network to be built again."""
        return {
            "backbone": self.encoder.backbone, "classes": self.classes, "predicts": self.predicts,
            "with_cam": self.decoder.with_cam, "mean": self.mean, "std": self.std,
        }  # fmt: skip
