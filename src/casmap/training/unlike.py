"""A recipe for images unlike photos of objects, such as scans: where the shipped mapping's masks hold no evidence.

Everything is the recipe `scans`, unless the time or the size of the images asks for less: f(0) whose last layers are
trained where its head alone is not good, Algorithm 1 in feature space, and a short second stage.
"""

import statistics
from typing import Any

from casmap.data.photos import PhotoSet
from casmap.errors import UserError, option
from casmap.reporting import SILENT, Reporter, duration, whole_minutes
from casmap.training.budget import (
    SHORT_LIMIT,
    SIZE_PHOTOS,
    StepTimes,
    estimated_seconds,
    spread_indices,
    time_training,
)  # fmt: skip
from casmap.training.held_out import SETTLED
from casmap.training.recipes import SCANS, Recipe

SCALED = ("first_steps", "second_stage_steps")  # what a time limit reduces, down to a quarter
LEAST = 0.25
SMALLEST = 96


def choose_unlike(
    photos: PhotoSet, changes: dict[str, Any], minutes: float | None = None, reporter: Reporter = SILENT,
    spent: float = 0.0,
) -> tuple[Recipe, list[str], StepTimes]:  # fmt: skip
    """The recipe scans with `changes`, cut to fit into the time, a line about each option, and the times of its steps.

    minutes: default 20. spent: seconds of the user's minutes that are no longer among them.
    """
    side = int(statistics.median(min(photos.image(i).shape[:2]) for i in spread_indices(photos, SIZE_PHOTOS)))
    sizes = [size for size in (SCANS.size, 160, SMALLEST) if size <= max(side, SMALLEST)]
    seconds = SHORT_LIMIT if minutes is None else 60 * minutes
    for size in [changes["size"]] if "size" in changes else sizes:
        recipe = SCANS.replace(**{"size": size} | changes)
        times = time_training(recipe, photos, reporter)
        for share in (1.0, 0.5, LEAST):
            shorter = {name: round(share * getattr(SCANS, name)) for name in SCALED}
            steps = max(SETTLED, round(share * SCANS.total_steps(len(photos))))
            recipe = SCANS.replace(**{"size": size, "steps": steps} | shorter | changes)
            needed = estimated_seconds(recipe, len(photos), times)
            if needed <= seconds:
                return recipe, _explain(recipe, changes, side, share), times
    if minutes is not None:
        raise UserError(
            f"These photos need about {duration(needed)} on this machine: set {option('minutes')} to at least "
            f"{whole_minutes(spent + needed)}, or leave it out."
        )
    return recipe, _explain(recipe, changes, side, share), times


def _explain(recipe: Recipe, changes: dict[str, Any], side: int, share: float) -> list[str]:
    """A line for each option: name, value and meaning."""
    shorter = "" if share == 1 else "; fewer than usual, to fit into the time"
    f0 = "training steps of the last layers of f(0), if its head alone is not good; the better of both is kept"
    meanings = {
        "from_scratch": "run Algorithm 1, because the shipped mapping does not fit these photos",
        "backbone": "the network of the classifier",
        "size": f"photos are resized to {recipe.size} x {recipe.size} pixels; a typical shorter side has {side}",
        "first_steps": f0 + shorter,
        "erase": "what the masks of Algorithm 1 erase; features are faster than pixels",
        "steps": "steps of Algorithm 1, which trains the classifier and the mapping in turn",
        "area": "share of a photo that the masks of Algorithm 1 cover: small objects are assumed",
        "second_stage_steps": f"steps of the second stage, which fits the masks to edges{shorter}",
    }
    return [
        f"{name} = {getattr(recipe, name)}: {text}" + " (your choice)" * (name in changes)
        for name, text in meanings.items()
    ]
