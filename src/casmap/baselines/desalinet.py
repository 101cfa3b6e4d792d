"""Mahendran & Vedaldi 2016, "Salient Deconvolutional Networks": deconvnet combined with the gradient.

At a ReLU with input x, the backward signal e becomes max(e, 0) where x > 0: the rule of guided backpropagation.
"""

from torch import Tensor
from zennit.rules import ReLUGuidedBackprop

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import backpropagate
from casmap.evaluation.rules import grab_cut
from casmap.models.classifier import Classifier


def desalinet(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W).

    >>> import torch
    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> desalinet(f, torch.rand(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 64, 64])
    """
    return backpropagate(ReLUGuidedBackprop(), classifier, images, classes)


BASELINES.register("desalinet")(Baseline("DeSaliNet", "Mahendran & Vedaldi 2016", desalinet, grab_cut(), paper_le=42.0))
