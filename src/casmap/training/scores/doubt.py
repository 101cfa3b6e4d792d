"""Doubt, which is not in the paper: f' should predict anything but the label."""

from torch import Tensor

from casmap.training.scores import SCORES, Score


def doubt(logits: Tensor, labels: Tensor) -> Tensor:
    """log(1 - p_y), the log probability of all other classes, at most 0: logits (N, C), labels (N,) -> (N,).

    Unlike H, it gains nothing more once p_y is 0: evidence of other classes may stay.

    >>> import torch
    >>> doubt(torch.zeros(1, 4), torch.tensor([0]))  # ln 3/4
    tensor([-0.2877])
    """
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return others.logsumexp(dim=1) - logits.logsumexp(dim=1)


# The lambda_R of the entropy, as the initial value for the option area.
SCORES.register("doubt")(Score(doubt, "D", lambda_r=10.0, lambda_r_of={"F": 2.5, "L": 14.0, "FL": 7.5}))
