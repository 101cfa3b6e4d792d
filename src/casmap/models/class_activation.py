"""Class activation maps (CAM): where the last features of a classifier are evidence of a class (Zhou et al. 2016).

M_c(x, y) = sum_k w_k^c A_k(x, y)

A: the last feature maps, before global average pooling; w^c: the weights of class c in the linear head.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from casmap.errors import UnsupportedBackbone

if TYPE_CHECKING:  # classifier.py imports this module
    from casmap.models.classifier import Classifier

CAM_CHANNELS = 4  # channels of `probability_weighted_cam`


def class_activation(classifier: "Classifier", images: Tensor, classes: Tensor) -> Tensor:
    """M_c: images (N, 3, H, W), classes (N,) -> maps (N, h, w).

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
    """The feature maps (N, K, h, w) that enter the head, and the logits (N, C)."""
    if classifier.stage_indices is None:
        raise UnsupportedBackbone(f"Class activation maps need a timm or lite backbone, not {classifier.backbone}.")
    logits, _, features = classifier.forward_features(images)
    if features.ndim != 4 or features.shape[1] != classifier.network.num_features:  # tokens, or channels last
        raise UnsupportedBackbone(f"{classifier.backbone} has no feature maps (N, K, h, w) before its head.")
    return features, logits


def linear_head(classifier: "Classifier", features: Tensor, logits: Tensor) -> nn.Linear:
    """The linear head; raises UnsupportedBackbone if the head is not average pooling and one linear layer."""
    head = classifier.network.get_classifier()
    if isinstance(head, nn.Linear) and head.in_features == features.shape[1]:
        expected = head(features.mean(dim=(2, 3)))
        if torch.allclose(expected, logits, rtol=1e-3, atol=1e-3):
            return head
    raise UnsupportedBackbone(
        f"Class activation maps need a head of average pooling and a linear layer, unlike {classifier.backbone}."
    )


def min_max(maps: Tensor, least: float = 1e-6) -> Tensor:
    """Rescale each map (..., h, w) to 0..1; a constant map becomes 0, and a range below `least` is not stretched to 1.

    >>> min_max(torch.tensor([[[1.0, 3.0]], [[2.0, 2.0]]])).tolist()
    [[[0.0, 1.0]], [[0.0, 0.0]]]
    """
    above = maps - maps.amin(dim=(-2, -1), keepdim=True)
    return above / above.amax(dim=(-2, -1), keepdim=True).clamp_min(least)


def probability_weighted_cam(stage: Tensor, features: Tensor, logits: Tensor, head: nn.Linear) -> Tensor:
    """An additional stage for the decoder, computed from the classifier's own outputs; no label is needed.

    sum_c p_c M_c(x, y), the class activation maps weighted by the probability of each class, and the norm of the last
    stage; each of them twice: divided by its maximum, and standardised. No gradient passes through it.

    stage (N, J, h, w), features (N, K, h, w), logits (N, C), the linear head from K to C -> (N, 4, h, w).

    >>> stage, features = torch.rand(2, 6, 3, 3), torch.rand(2, 8, 3, 3)
    >>> probability_weighted_cam(stage, features, torch.zeros(2, 5), nn.Linear(8, 5)).shape
    torch.Size([2, 4, 3, 3])
    """
    with torch.no_grad():
        channels = []
        for maps in (torch.einsum("nkhw,nk->nhw", features, logits.softmax(dim=1) @ head.weight), stage.norm(dim=1)):
            positive = maps.clamp_min(0)  # evidence against a class counts as 0
            centred = maps - maps.mean(dim=(1, 2), keepdim=True)
            channels.append(positive / positive.amax(dim=(1, 2), keepdim=True).clamp_min(1e-6))
            channels.append(centred / (centred.square().mean(dim=(1, 2), keepdim=True).sqrt() + 1e-4))
        return torch.stack(channels, dim=1)
