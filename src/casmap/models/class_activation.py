"""Class activation maps: where the last features of a classifier speak for a class (Zhou et al. 2016).

M_c(x, y) = sum_k w_k^c A_k(x, y)

A: the last feature maps, before global average pooling; w^c: the weights of class c in the linear head.
"""

import torch
from torch import Tensor, nn

from casmap.errors import Unsuited
from casmap.models.classifier import Classifier


def class_activation(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w).

    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> class_activation(f, torch.zeros(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 2, 2])
    """
    with torch.no_grad():
        features, logits = last_features(classifier, images)
        head = linear_head(classifier, features, logits)
        return torch.einsum("nkhw,nk->nhw", features, head.weight[classes])


def last_features(classifier: Classifier, images: Tensor) -> tuple[Tensor, Tensor]:
    """The feature maps that the head sees, (N, K, h, w), and the logits that it makes of them, (N, C)."""
    if classifier.stage_indices is None:
        raise Unsuited(f"Class activation maps need a backbone of timm's or a lite one, not {classifier.backbone}.")
    logits, _, features = classifier.look_inside(images)
    if features.ndim != 4 or features.shape[1] != classifier.network.num_features:  # tokens, or channels last
        raise Unsuited(f"{classifier.backbone} has no feature maps (N, K, h, w) before its head.")
    return features, logits


def linear_head(classifier: Classifier, features: Tensor, logits: Tensor) -> nn.Linear:
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
