"""Scores: the gain H that the mapping maximises. One file for each; its name is the value of the option score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from casmap.registry import Registry

if TYPE_CHECKING:  # listing the names of scores does not need torch
    from torch import Tensor


@dataclass(frozen=True)
class Score:
    """A gain H and its lambda_R, the weight of the mask's area.

    gain: logits of f' on masked images (N, C), labels (N,) -> (N,).
    takes: "activation" if gain instead takes the label's activation in f' after and before erasing, each (N,). Then
    the area has its price in every image that f classifies correctly, not only in those that f' misclassifies.
    letter: its short name, as in the paper's Table 2.
    lambda_r: for 1,000 classes; with the option area, only the initial value.
    lambda_r_of: lambda_r of individual thinnings, by name.
    """

    gain: "Callable[[Tensor, Tensor], Tensor]"
    letter: str
    lambda_r: float
    lambda_r_of: Mapping[str, float] = field(default_factory=dict)
    takes: Literal["logits", "activation"] = "logits"


SCORES: Registry[Score] = Registry("score", plugins="casmap.scores", package="casmap.training.scores", of=Score)
