"""The activation ratio, which is not in the paper: little evidence of the label should be left (Wu et al. 2022)."""

import torch
from torch import Tensor

from casmap.training.scores import SCORES, Score


def activation(after: Tensor, before: Tensor) -> Tensor:
    """Minus the label's activation after erasing / before: (N,), (N,) -> (N,), 0 where there was none before.

    Unlike H, it goes on growing until all evidence is erased: it does not saturate once f' predicts another class.

    >>> activation(torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0]))
    tensor([-0.2500,  0.0000])
    """
    return torch.where(before > 0, -after / before.clamp_min(1e-6), torch.zeros_like(after))


# Not scaled to the number of classes: a ratio has no unit.
SCORES.register("activation")(Score(activation, "A", lambda_r=3.5, takes="activation"))
