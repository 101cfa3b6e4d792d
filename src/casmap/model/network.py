"""What a mapping file holds: encoder and decoder, one forward pass from photos to masks."""

from typing import Any

from torch import Tensor, nn

from casmap.model.classifier import Classifier
from casmap.model.decoder import Decoder


class SaliencyNetwork(nn.Module):
    """Photos in, masks out; and the class, where the encoder is a classifier's.

    forward: normalised images (N, 3, H, W) -> masks (N, 1, H, W) in 0..1, logits (N, classes).
    """

    def __init__(self, encoder: Classifier, decoder: Decoder, classes: list[str], predicts: bool) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.classes = classes
        self.predicts = predicts  # a separate encoder was never trained to tell classes

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Masks and logits of `images`, in one pass."""
        logits, stages = self.encoder.look(images)
        return self.decoder(stages, images.shape[-2:]), logits

    def about(self) -> dict[str, Any]:
        """What a file must say for the network to be built again."""
        return {
            "backbone": self.encoder.backbone,
            "classes": self.classes,
            "predicts": self.predicts,
            "mean": self.encoder.mean,
            "std": self.encoder.std,
        }
