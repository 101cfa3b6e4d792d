"""The classification loss, the paper's other choice: f' should misclassify the masked image."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from casmap.training.scores import SCORES, Score


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """l(f(x), y) = -log p_y: logits (N, C), labels (N,) -> (N,).

    >>> import torch
    >>> loss(torch.zeros(1, 4), torch.tensor([0]))  # ln 4
    tensor([1.3863])
    """
    return cross_entropy(logits, labels, reduction="none")


# lambda_R of the authors' release.
SCORES.register("loss")(Score(loss, "C", lambda_r=17.0, lambda_r_of={"F": 9.0, "L": 18.0, "FL": 11.0}))
