"""The network of a mapping file: encoder and decoder, one forward pass from images to masks."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder


class SaliencyNetwork(nn.Module):
    """Computes masks and, if the encoder is a classifier's, logits.

    cam_head: the head of other classes, from which the decoder's class activation map is computed. With the shipped
    mapping's, a new head for new classes changes no mask.

    forward: normalised images (N, 3, H, W) -> masks (N, 1, H, W) in 0..1, logits (N, classes).
    """

    concurrent = False  # torch's threads are shared by all callers

    def __init__(
        self, encoder: Classifier, decoder: Decoder, classes: list[str], predicts: bool,
        cam_head: nn.Linear | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder, self.decoder, self.cam_head = encoder, decoder, cam_head
        self.mean, self.std = encoder.mean, encoder.std  # with which pixels in 0..1 are normalised
        self.classes = classes
        self.predicts = predicts  # a separate encoder is not trained to classify

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Masks and logits of `images`, in one pass."""
        logits, stages = self.encode(images)
        return self.decoder(stages, images.shape[-2:]), logits

    def encode(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The logits, and the stages from which the decoder computes the masks."""
        if not self.decoder.with_cam:
            return self.encoder.forward_stages(images)
        return self.encoder.forward_stages_with_cam(images, self.cam_head)

    def run(self, images: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Masks (N, H, W) and logits (N, classes) of images (N, 3, H, W), as arrays."""
        device = next(self.parameters()).device
        with torch.inference_mode():
            # Channels last: 1.2 times as fast on a CPU (benchmarks/layout.py).
            tensor = torch.from_numpy(images).to(device, memory_format=torch.channels_last)
            masks, logits = self.eval()(tensor)
        return masks[:, 0].cpu().numpy(), logits.cpu().numpy()

    def about(self) -> dict[str, Any]:
        """The metadata from which the network can be built again."""
        about = {
            "backbone": self.encoder.backbone, "classes": self.classes, "predicts": self.predicts,
            "with_cam": self.decoder.with_cam, "mean": self.mean, "std": self.std,
        }  # fmt: skip
        return about if self.cam_head is None else about | {"cam_classes": self.cam_head.out_features}
