"""The names of what a mapping was trained by: CASM or Baseline, the paper's or another recipe, and the second stage."""

from collections.abc import Mapping
from typing import Any

from casmap.training.options_of_0_1_0 import current_names
from casmap.training.recipes import PAPER, PHOTOS

# What makes Algorithm 1 the paper's; other options are numbers such as sizes, rates and steps.
DECIDING = ("score", "masked_in", "encoder", "freeze_batch_norm", "erase", "sharpness", "reuse_masked", "loss")
KINDS = {"the paper's": PAPER, "photos recipe": PHOTOS}
OTHER = "another recipe"
PAPERS = ("F", "L100")  # the thinnings of the paper's Baseline and CASM; of others it has single rows only
SHIPPED = "shipped"  # the value of masks_from


def variant(about: Mapping[str, Any]) -> str:
    """The name of a mapping with this metadata; "" without a recipe.

    >>> import dataclasses
    >>> paper, photos = (dataclasses.asdict(recipe) for recipe in (PAPER, PHOTOS))
    >>> variant({"recipe": paper}), variant({"recipe": paper | {"thinning": "F"}})
    ("CASM, the paper's", "Baseline, the paper's")
    >>> variant({"recipe": photos, "corrected": {"photos": 20}}), variant({})
    ('CASM, photos recipe + second stage, corrected by people', '')
    """
    recipe = current_names(about.get("recipe") or {})
    if not recipe:
        return ""
    corrected = ", corrected by people" if "corrected" in about else ""
    stopped = f", stopped after {about['stopped']} steps" if "stopped" in about else ""
    return _of_recipe(recipe) + stopped + corrected


def _of_recipe(recipe: Mapping[str, Any]) -> str:
    """The name of a mapping that was trained by a recipe to its end."""
    if source := recipe.get("masks_from"):  # no Algorithm 1 of its own
        # What is shipped may have learned from the mapping that it replaced.
        return f"second stage on the masks of {'the mapping shipped before it' if source == SHIPPED else source}"
    given = {key: recipe.get(key, getattr(PAPER, key)) for key in DECIDING}
    if recipe.get("encoder") == "separate":  # a row of the paper's Table 2
        given["encoder"] = PAPER.encoder
    kind = next((name for name, of in KINDS.items() if given == {key: getattr(of, key) for key in DECIDING}), OTHER)
    thinning = recipe.get("thinning", PAPER.thinning)
    if KINDS.get(kind) is PAPER and thinning not in PAPERS:
        kind = OTHER
    if KINDS.get(kind) is PAPER and recipe.get("area") is not None:
        kind += " with --area"  # the paper's lambda_R is a constant
    name = f"{'Baseline' if thinning == 'F' else 'CASM'}, {kind}"
    return f"{name} + second stage" if recipe.get("second_stage_steps") else name
