"""The names of what a mapping was trained by: CASM or Baseline, the paper's or another recipe, and the second stage."""

from collections.abc import Mapping
from typing import Any

from casmap.training.recipes import PAPER, PHOTOS

# What makes Algorithm 1 the paper's; other options are numbers such as sizes, rates and steps.
DECIDING = ("score", "masked_in", "encoder", "freeze_batch_norm", "erase", "sharpness", "reuse_masked", "loss")
KINDS = {"the paper's": PAPER, "photos recipe": PHOTOS}
OTHER = "another recipe"


def variant(recipe: Mapping[str, Any]) -> str:
    """The name of a mapping with this recipe in its metadata; "" without one.

    >>> import dataclasses
    >>> variant(dataclasses.asdict(PAPER)), variant(dataclasses.asdict(PAPER.replace(thinning="F")))
    ("CASM, the paper's", "Baseline, the paper's")
    >>> variant(dataclasses.asdict(PHOTOS)), variant({})
    ('CASM, photos recipe + second stage', '')
    """
    if not recipe:
        return ""
    given = {key: recipe.get(key, getattr(PAPER, key)) for key in DECIDING}
    if recipe.get("encoder") == "separate":  # a row of the paper's Table 2
        given["encoder"] = PAPER.encoder
    kind = next((name for name, of in KINDS.items() if given == {key: getattr(of, key) for key in DECIDING}), OTHER)
    if KINDS.get(kind) is PAPER and recipe.get("area") is not None:
        kind += " with --area"  # the paper's lambda_R is a constant
    name = f"{'Baseline' if recipe.get('thinning') == 'F' else 'CASM'}, {kind}"
    if source := recipe.get("masks_from"):  # no Algorithm 1 of its own
        return f"second stage on the masks of {source}"
    return f"{name} + second stage" if recipe.get("second_stage_steps") else name
