"""Wang et al. 2020, "Score-CAM: Score-Weighted Visual Explanations for Convolutional Neural Networks".

    M_c(x, y) = ReLU(sum_k w_k A_k(x, y)),    w = softmax over k of  S_c(x rescaled A_k) - S_c(x)

A: the last feature maps, each of which masks the image once: as many forward passes as there are maps. torch-cam
implements it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torchcam.methods import ScoreCAM

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.black_box import black_box
from casmap.models.class_activation import last_features
from casmap.models.classifier import Classifier


def score_cam(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w)."""
    whole = _WithFeatureLayer(classifier).eval()
    with ScoreCAM(whole, "features", input_shape=tuple(images.shape[1:])) as extractor, torch.no_grad():
        whole(images)
        whole.predict = black_box(classifier, images)
        found: Tensor = extractor(classes.tolist())[0]
    return found


class _WithFeatureLayer(nn.Module):
    """The classifier with its last feature maps passed through a layer of its own, which torch-cam can hook.

    predict: computes the logits instead, once the feature maps are recorded and only logits are needed.
    """

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier, self.features = classifier, nn.Identity()
        self.predict: Callable[[Tensor], Tensor] | None = None

    def forward(self, images: Tensor) -> Tensor:
        """The logits (N, C) of images (N, 3, H, W)."""
        if self.predict is not None:
            return self.predict(images)
        logits: Tensor = self.classifier.network.forward_head(self.features(last_features(self.classifier, images)[0]))
        return logits


BASELINES.register("score-cam")(Baseline("Score-CAM", "Wang et al. 2020", score_cam, slow=1))
