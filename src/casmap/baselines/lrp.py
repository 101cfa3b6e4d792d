"""Bach et al. 2015, "On Pixel-Wise Explanations [...] by Layer-Wise Relevance Propagation".

    R_i = sum_j (2 z_ij^+ / sum_i z_ij^+  -  z_ij^- / sum_i z_ij^-) R_j,    z_ij = x_i w_ij

Relevance starts as the logit of class c and is redistributed layer by layer down to the image: with alpha = 2, beta = 1
through convolutions, as the paper does for ImageNet, and with z_ij / sum z_ij through the linear head. The map is the
sum over colour channels, negative values set to 0. Zennit implements the rules.
"""

import torch
from torch import Tensor
from torch.nn.functional import relu
from zennit.composites import EpsilonAlpha2Beta1

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import MergedNorms, SharedSums, without_inplace
from casmap.evaluation.rules import MeanThreshold
from casmap.models.classifier import Classifier


def lrp(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    images = images.clone().requires_grad_(True)
    composite = EpsilonAlpha2Beta1(canonizers=[MergedNorms()])
    with torch.enable_grad(), without_inplace(classifier), composite.context(classifier):
        with SharedSums():
            logits = classifier(images)
        start = torch.zeros_like(logits).scatter(1, classes[:, None], logits.detach().gather(1, classes[:, None]))
        (relevance,) = torch.autograd.grad(logits, images, start)
    return relu(relevance.sum(dim=1))


BASELINES.register("lrp")(Baseline("LRP", "Bach et al. 2015", lrp, MeanThreshold(), paper_le=57.8))
