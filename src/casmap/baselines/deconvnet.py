"""Zeiler & Fergus 2014, "Visualizing and Understanding Convolutional Networks": the reversed network.

At a ReLU, which x went into, e comes back and goes on as max(e, 0), whatever x was; a gradient goes on where x > 0.
"""

from torch import Tensor
from zennit.rules import ReLUDeconvNet

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import sent_back
from casmap.evaluation.rules import MeanLevel
from casmap.models.classifier import Classifier


def deconvnet(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W).

    >>> import torch
    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> deconvnet(f, torch.rand(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 64, 64])
    """
    return sent_back(ReLUDeconvNet(), classifier, images, classes)


BASELINES.register("deconvnet")(Baseline("deconvnet", "Zeiler & Fergus 2014", deconvnet, MeanLevel(), paper_le=48.6))
