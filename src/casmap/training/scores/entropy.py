"""H, the entropy, which is the paper's choice: f' should be as uncertain as possible."""

from torch import Tensor
from torch.nn.functional import log_softmax

from casmap.training.scores import SCORES, Score


def entropy(logits: Tensor, labels: Tensor | None = None) -> Tensor:
    """H(f(x)) = -sum_c p_c log p_c in nats; the labels are ignored: logits (N, C) -> (N,).

    >>> import torch
    >>> entropy(torch.zeros(1, 4))  # uniform over four classes: ln 4
    tensor([1.3863])
    """
    log_p = log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


# lambda_R of the authors' release.
SCORES.register("entropy")(Score(entropy, "E", lambda_r=10.0, lambda_r_of={"F": 2.5, "L": 14.0, "FL": 7.5}))
