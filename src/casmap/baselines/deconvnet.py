"""Zeiler & Fergus 2014, "Visualizing and Understanding Convolutional Networks": the reversed network.

At a ReLU with input x, the backward signal e becomes max(e, 0) for any x; a gradient would pass only where x > 0.
"""

from torch import Tensor
from zennit.rules import ReLUDeconvNet

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import backpropagate
from casmap.evaluation.rules import MeanThreshold
from casmap.models.classifier import Classifier


def deconvnet(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    return backpropagate(ReLUDeconvNet(), classifier, images, classes)


BASELINES.register("deconvnet")(
    Baseline("deconvnet", "Zeiler & Fergus 2014", deconvnet, MeanThreshold(), paper_le=48.6)
)
