"""Reversed networks, which differ from the gradient, and from one another, in how they pass a ReLU.

    deconvnet (Zeiler & Fergus 2014)           e -> max(e, 0)
    gradient  (Simonyan et al. 2013)           e -> e [x > 0]
    DeSaliNet (Mahendran & Vedaldi 2016)       e -> max(e, 0) [x > 0]

e comes back to a ReLU that x went into, beginning with the class's logit; convolutions are transposed, and max pooling
sends back to where the largest value was, in all three. The map is the largest absolute value over the colours, as
Simonyan's. Zennit has the rules.
"""

import torch
from torch import Tensor
from zennit.composites import LayerMapComposite
from zennit.core import Hook

from casmap.baselines.support.relevance import RELUS, not_in_place, relus
from casmap.models.classifier import Classifier


def sent_back(rule: Hook, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W), with this rule for ReLUs."""
    relus(classifier)  # without any it would be the gradient
    composite = LayerMapComposite([(RELUS, rule)])
    images = images.clone().requires_grad_(True)
    with torch.enable_grad(), not_in_place(classifier), composite.context(classifier):
        logits = classifier(images)
        (found,) = torch.autograd.grad(logits.gather(1, classes[:, None]).sum(), images)
    return found.abs().amax(dim=1)
