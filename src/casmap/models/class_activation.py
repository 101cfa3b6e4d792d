"""Class activation maps: where the last features of a classifier speak for a class (Zhou et al. 2016).

M_c(x, y) = sum_k w_k^c A_k(x, y)

A: the last feature maps, before global average pooling; w^c: the weights of class c in the linear head.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from casmap.errors import Unsuited

if TYPE_CHECKING:  # a classifier looks with its own expected activation
    from casmap.models.classifier import Classifier

CAM_CHANNELS = 4  # of `probability_weighted_cam`


def class_activation(classifier: "Classifier", images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w).

    >>> from casmap.models.classifier import Classifier
    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> class_activation(f, torch.zeros(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 2, 2])
    """
    with torch.no_grad():
        features, logits = last_features(classifier, images)
        head = linear_head(classifier, features, logits)
        return torch.einsum("nkhw,nk->nhw", features, head.weight[classes])


def last_features(classifier: "Classifier", images: Tensor) -> tuple[Tensor, Tensor]:
    """The feature maps that the head sees, (N, K, h, w), and the logits that it makes of them, (N, C)."""
    if classifier.stage_indices is None:
        raise Unsuited(f"Class activation maps need a backbone of timm's or a lite one, not {classifier.backbone}.")
    logits, _, features = classifier.forward_features(images)
    if features.ndim != 4 or features.shape[1] != classifier.network.num_features:  # tokens, or channels last
        raise Unsuited(f"{classifier.backbone} has no feature maps (N, K, h, w) before its head.")
    return features, logits


def linear_head(classifier: "Classifier", features: Tensor, logits: Tensor) -> nn.Linear:
    """The head, if it is what the method assumes: average pooling and one linear layer."""
    head = classifier.network.get_classifier()
    if isinstance(head, nn.Linear) and head.in_features == features.shape[1]:
        made = head(features.mean(dim=(2, 3)))
        if torch.allclose(made, logits, rtol=1e-3, atol=1e-3):
            return head
    raise Unsuited(f"The head of {classifier.backbone} is not average pooling and one linear layer, as CAM needs it.")


def min_max(maps: Tensor, least: float = 1e-6) -> Tensor:
    """Stretch each map (..., h, w) to 0..1; a flat one becomes 0, and one whose range is below `least` stays small.

    >>> min_max(torch.tensor([[[1.0, 3.0]], [[2.0, 2.0]]])).tolist()
    [[[0.0, 1.0]], [[0.0, 0.0]]]
    """
    above = maps - maps.amin(dim=(-2, -1), keepdim=True)
    return above / above.amax(dim=(-2, -1), keepdim=True).clamp_min(least)


def probability_weighted_cam(stage: Tensor, features: Tensor, logits: Tensor, head: nn.Linear) -> Tensor:
    """One more stage for the decoder, from what the classifier has computed anyway; no class is asked for.

    sum_c p_c M_c(x, y): class activation maps, weighted by the probability of each class; and beside it the norm of the
    last stage. Each twice: as a share of its largest value, and standardised. No gradient passes.

    stage (N, J, h, w), features (N, K, h, w), logits (N, C), the linear head from K to C -> (N, 4, h, w).

    >>> stage, features = torch.rand(2, 6, 3, 3), torch.rand(2, 8, 3, 3)
    >>> probability_weighted_cam(stage, features, torch.zeros(2, 5), nn.Linear(8, 5)).shape
    torch.Size([2, 4, 3, 3])
    """
    with torch.no_grad():
        views = []
        for maps in (torch.einsum("nkhw,nk->nhw", features, logits.softmax(dim=1) @ head.weight), stage.norm(dim=1)):
            positive = maps.clamp_min(0)  # what speaks against counts as nothing
            centred = maps - maps.mean(dim=(1, 2), keepdim=True)
            views.append(positive / positive.amax(dim=(1, 2), keepdim=True).clamp_min(1e-6))
            views.append(centred / (centred.square().mean(dim=(1, 2), keepdim=True).sqrt() + 1e-4))
        return torch.stack(views, dim=1)
