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
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    return backpropagate(ReLUGuidedBackprop(), classifier, images, classes)


BASELINES.register("desalinet")(Baseline("DeSaliNet", "Mahendran & Vedaldi 2016", desalinet, grab_cut(), paper_le=42.0))
