"""Simonyan et al. 2013, "Deep Inside Convolutional Networks": the gradient.

    M_c(x, y) = max over colour channels of |d S_c / d I(x, y)|

S_c: the logit of class c. As in the paper, the mean over ten crops: the four corners and the centre, each with 7/8 of
the side, and their mirror images. Captum computes the gradient.
"""

import torch
from captum.attr import Saliency
from torch import Tensor
from torch.nn.functional import interpolate

from casmap.baselines import BASELINES, Baseline
from casmap.evaluation.rules import grab_cut
from casmap.models.classifier import Classifier


def gradient(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    height, width = images.shape[-2:]
    h, w = 7 * height // 8, 7 * width // 8
    total, count = torch.zeros(len(images), height, width), torch.zeros(height, width)
    bottom, right = height - h, width - w
    for y, x in ((0, 0), (0, right), (bottom, 0), (bottom, right), (bottom // 2, right // 2)):
        part = interpolate(images[..., y : y + h, x : x + w], (height, width), mode="bilinear")
        for mirrored in (False, True):
            found = plain_gradient(classifier, part.flip(-1) if mirrored else part, classes)
            found = found.flip(-1) if mirrored else found
            total[:, y : y + h, x : x + w] += interpolate(found[:, None], (h, w), mode="area")[:, 0]
            count[y : y + h, x : x + w] += 1
    return total / count


def plain_gradient(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """The gradient of the whole images, without crops."""
    found: Tensor = Saliency(classifier).attribute(images.clone().requires_grad_(True), target=classes, abs=True)
    return found.amax(dim=1)


BASELINES.register("gradient")(Baseline("gradient", "Simonyan et al. 2013", gradient, grab_cut(), paper_le=41.7))
