"""Zhang et al. 2016, "Top-down Neural Attention by Excitation Backprop": contrastive marginal winning probability.

    P(a_j) = sum_i P(a_j | a_i) P(a_i),    P(a_j | a_i) = a_j w_ji^+ / sum_j a_j w_ji^+

A winner is drawn top down, each neuron by its share in exciting the one above: the map is the probability to pass a
place. Contrast: below the head, the probabilities of a class that is "not c", with the weights negated, are taken away;
the difference, with its sign, goes on down to a layer with an eighth of the picture's side, as the paper's pool2 and
res3a have, and only there what is left below 0 is cut off. Zennit has the rule.
"""

import torch
from torch import Tensor
from torch.nn.functional import relu
from zennit.composites import ExcitationBackprop
from zennit.rules import Pass
from zennit.types import Activation

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import EPSILON, MergedNorms, SharedSums, not_in_place
from casmap.errors import Unsuited
from casmap.evaluation.rules import MeanLevel
from casmap.models.class_activation import last_features, linear_head
from casmap.models.classifier import Classifier

STRIDE = 8


def excitation_backprop(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w).

    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> excitation_backprop(f, torch.rand(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 8, 8])
    """
    # Biases excite nobody; an activation sends back what it gets, also where ReLU6 is at its end.
    composite = ExcitationBackprop(
        layer_map=[(Activation, Pass())], zero_params=["bias"], canonizers=[MergedNorms()], stabilizer=EPSILON
    )
    with torch.no_grad():
        head = linear_head(classifier, *last_features(classifier, images[:1]))
    images = images.clone().requires_grad_(True)
    with torch.enable_grad(), not_in_place(classifier), composite.context(classifier):
        with SharedSums(excited=True):
            _, stages, features = classifier.forward_features(images)
        layer = next((stage for stage in stages if images.shape[-1] / stage.shape[-1] >= STRIDE), None)
        if layer is None:
            raise Unsuited(f"{classifier.backbone} has no feature maps with an eighth of the picture's side.")
        contrast = contrasted(features.detach(), head.weight[classes])
        (found,) = torch.autograd.grad(features, layer, contrast)
    return relu(found.sum(dim=1))


def contrasted(features: Tensor, weights: Tensor) -> Tensor:
    """Features (N, K, h, w) and the weights of the classes (N, K) -> winning probability less that of "not c"."""
    parts = (relu(features) * relu(sign * weights)[..., None, None] for sign in (1, -1))
    excited, against = (of / of.sum(dim=(1, 2, 3), keepdim=True).clamp_min(EPSILON) for of in parts)
    return excited - against


BASELINES.register("excitation-backprop")(
    Baseline("excitation backprop", "Zhang et al. 2016", excitation_backprop, MeanLevel(), paper_le=38.7)
)
