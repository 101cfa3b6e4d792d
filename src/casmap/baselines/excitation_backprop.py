"""Zhang et al. 2016, "Top-down Neural Attention by Excitation Backprop": contrastive marginal winning probability.

    P(a_j) = sum_i P(a_j | a_i) P(a_i),    P(a_j | a_i) = a_j w_ji^+ / sum_j a_j w_ji^+

A winner is sampled top down, each neuron with the probability of its share in exciting the neuron above: the map is the
probability of passing a location. Contrast: below the head, the probabilities of the dual class "not c", with negated
weights, are subtracted; the signed difference is propagated to a layer with an eighth of the image's side, as the
paper's pool2 and res3a have, and only there negative values are set to 0. Zennit implements the rule.
"""

import torch
from torch import Tensor
from torch.nn.functional import relu
from zennit.composites import ExcitationBackprop
from zennit.rules import Pass
from zennit.types import Activation

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import EPSILON, MergedNorms, SharedSums, without_inplace
from casmap.errors import UnsupportedBackbone
from casmap.evaluation.rules import MeanThreshold
from casmap.models.class_activation import last_features, linear_head
from casmap.models.classifier import Classifier

STRIDE = 8


def excitation_backprop(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w)."""
    # Biases have no excitation; an activation passes its signal on unchanged, even where ReLU6 saturates.
    composite = ExcitationBackprop(
        layer_map=[(Activation, Pass())], zero_params=["bias"], canonizers=[MergedNorms()], stabilizer=EPSILON
    )
    with torch.no_grad():
        head = linear_head(classifier, *last_features(classifier, images[:1]))
    images = images.clone().requires_grad_(True)
    with torch.enable_grad(), without_inplace(classifier), composite.context(classifier):
        with SharedSums(excited=True):
            _, stages, features = classifier.forward_features(images)
        layer = next((stage for stage in stages if images.shape[-1] / stage.shape[-1] >= STRIDE), None)
        if layer is None:
            raise UnsupportedBackbone(f"{classifier.backbone} has no feature maps with an eighth of the image's side.")
        contrast = contrasted(features.detach(), head.weight[classes])
        (found,) = torch.autograd.grad(features, layer, contrast)
    return relu(found.sum(dim=1))


def contrasted(features: Tensor, weights: Tensor) -> Tensor:
    """Features (N, K, h, w) and class weights (N, K) -> winning probability minus that of "not c"."""
    parts = (relu(features) * relu(sign * weights)[..., None, None] for sign in (1, -1))
    excited, against = (of / of.sum(dim=(1, 2, 3), keepdim=True).clamp_min(EPSILON) for of in parts)
    return excited - against


BASELINES.register("excitation-backprop")(
    Baseline("excitation backprop", "Zhang et al. 2016", excitation_backprop, MeanThreshold(), paper_le=38.7)
)
