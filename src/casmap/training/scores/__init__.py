"""Scores: what the mapping gains from a masked image. One file for each; its name is that of `--score`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from casmap.registry import Registry

if TYPE_CHECKING:  # names of scores are listed without torch
    from torch import Tensor


@dataclass(frozen=True)
class Score:
    """A gain H, and the price of a mask's area that goes with it.

    gain: logits of f' on masked images (N, C), labels (N,) -> (N,).
    letter: its short name, as in the paper's Table 2.
    lambda_r: for 1,000 classes; where the area is asked for (--area), only a start.
    lambda_r_of: the same for some thinnings, by name.
    """

    gain: "Callable[[Tensor, Tensor], Tensor]"
    letter: str
    lambda_r: float
    lambda_r_of: Mapping[str, float] = field(default_factory=dict)


SCORES: Registry[Score] = Registry("score", plugins="casmap.scores", package="casmap.training.scores", of=Score)
