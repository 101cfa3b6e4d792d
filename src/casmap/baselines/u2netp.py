"""Qin et al. 2020, the small network of U2-Net, which is the one of rembg's `u2netp`: the formula is in `u2net`."""

from casmap.baselines import BASELINES
from casmap.baselines.u2net import drawn_masks

BASELINES.register("u2netp")(drawn_masks("u2netp"))
