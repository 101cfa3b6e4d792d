"""Doubt, which is ours: f' should say anything but the label."""

from torch import Tensor

from casmap.training.scores import SCORES, Score


def doubt(logits: Tensor, labels: Tensor) -> Tensor:
    """log(1 - p_y): how likely f' is to say anything but the label; logits (N, C), labels (N,) -> (N,), 0 at most.

    Unlike H it has nothing to gain once the label is gone: evidence of other classes may stay.

    >>> import torch
    >>> doubt(torch.zeros(1, 4), torch.tensor([0]))  # ln 3/4
    tensor([-0.2877])
    """
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return others.logsumexp(dim=1) - logits.logsumexp(dim=1)


# The entropy's lambda_R: a start for --area.
SCORES.register("doubt")(Score(doubt, "D", lambda_r=10.0, lambda_r_of={"F": 2.5, "L": 14.0, "FL": 7.5}))
