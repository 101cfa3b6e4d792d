"""Selvaraju et al. 2017, "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization".

    a_k^c = 1/Z sum_{x, y} d y^c / d A_k(x, y),    M_c(x, y) = ReLU(sum_k a_k^c A_k(x, y))

A: the last feature maps; y^c: the logit of class c. Unlike CAM, it works with any head.
"""

import torch
from torch import Tensor
from torch.nn.functional import relu

from casmap.baselines import BASELINES, Baseline
from casmap.evaluation.rules import above_share
from casmap.models.class_activation import last_features
from casmap.models.classifier import Classifier


def grad_cam(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w)."""
    with torch.no_grad():
        features, _ = last_features(classifier, images)
    with torch.enable_grad():
        features = features.detach().requires_grad_(True)
        logits = classifier.network.forward_head(features)
        (gradient,) = torch.autograd.grad(logits.gather(1, classes[:, None]).sum(), features)
    weights = gradient.mean(dim=(2, 3), keepdim=True)
    return relu((weights * features.detach()).sum(dim=1))


BASELINES.register("grad-cam")(
    Baseline("Grad-CAM", "Selvaraju et al. 2017", grad_cam, above_share(0.15), paper_le=47.5)
)
