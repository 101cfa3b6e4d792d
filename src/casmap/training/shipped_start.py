"""Train from the shipped mapping: new classes get a head, and the shipped decoder adapts to the photos.

Its masks before the first step are the shipped mapping's, so training begins at a mapping that works. The decoder
learns the shipped mapping's own masks of the photos, grown and fitted to edges, for a few steps: more did not help
(docs/guides/train.md).
"""

import dataclasses
from typing import Any

from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.errors import UserError, option
from casmap.inference.mapper import SHIPPED
from casmap.models.backbones import weights_reachable
from casmap.models.classifier import find_device
from casmap.models.onnx_network import load_onnx
from casmap.reporting import SILENT, Reporter, duration, whole_minutes
from casmap.training.budget import StepTimes, estimated_seconds, time_training
from casmap.training.recipes import SEEDS, Recipe

STEPS, MIN_STEPS = 60, 10
TIME_LIMIT = 1200.0  # seconds, if the user names no other limit
ADAPT = SEEDS.replace(from_scratch=False, second_stage_steps=STEPS, second_stage_lr=1e-4, batch=16)
# Whoever sets an option of Algorithm 1 wants Algorithm 1.
_NAMES = [entry.name for entry in dataclasses.fields(Recipe)]
OF_ALGORITHM_1 = {*_NAMES[_NAMES.index("thinning") : _NAMES.index("second_stage_steps")]} - {"batch"} | {
    "algorithm_size", "encoder", "weights", "cam_size", "cam_scales",
}  # fmt: skip


def starts_from_shipped(photos: PhotoSet, changes: dict[str, Any]) -> bool:
    """Whether training starts from the shipped mapping: its backbone, pretrained, and no option of Algorithm 1."""
    if isinstance(photos, Scenes) or not SHIPPED.exists() or not changes.get("second_stage_steps", STEPS):
        return False
    if OF_ALGORITHM_1 & changes.keys() or changes.get("from_scratch") or not changes.get("pretrained", True):
        return False
    backbone = load_onnx(SHIPPED).about["backbone"]
    if "backbone" not in changes and find_device(changes.get("device", "auto")).type != "cpu":
        return False  # a larger backbone is chosen
    return bool(changes.get("backbone", backbone) == backbone and weights_reachable(backbone))


def why_from_scratch(photos: PhotoSet, changes: dict[str, Any]) -> str | None:
    """The sentence about the option that alone keeps training from starting from the shipped mapping, if there is one.

    Such a run takes many times as long, which people who only wanted smaller masks do not expect.
    """
    own = [name for name in changes if name in OF_ALGORITHM_1]
    others = {name: value for name, value in changes.items() if name not in OF_ALGORITHM_1}
    if not own or not starts_from_shipped(photos, others):
        return None
    return f"{option(own[0])} is an option of Algorithm 1: this run does not start from the shipped mapping."


def choose_from_shipped(
    photos: PhotoSet, changes: dict[str, Any], minutes: float | None = None, reporter: Reporter = SILENT,
    spent: float = 0.0,
) -> tuple[Recipe, list[str], StepTimes]:  # fmt: skip
    """A recipe that starts from the shipped mapping and fits into the time, a line about each option, and times.

    spent: seconds of the user's minutes that are no longer among `minutes`.
    """
    about = load_onnx(SHIPPED).about
    recipe = ADAPT.replace(**{"backbone": about["backbone"], "size": about["size"]} | changes)
    limit = TIME_LIMIT if minutes is None else 60 * minutes
    times = time_training(recipe, photos, reporter)
    steps, reason = recipe.second_stage_steps, "more did not help in tests"
    if "second_stage_steps" not in changes:
        fixed = estimated_seconds(recipe, len(photos), times) - steps * times.second_stage_step
        fitting = int((limit - fixed) / times.second_stage_step)
        if fitting < MIN_STEPS and minutes is not None:
            needed = fixed + MIN_STEPS * times.second_stage_step
            raise UserError(
                f"These photos need about {duration(needed)} on this machine: set {option('minutes')} to at least "
                f"{whole_minutes(spent + needed)}."
            )
        if fitting < steps:
            steps, reason = max(MIN_STEPS, fitting), f"as many as fit into {limit / 60:g} minutes"
        recipe = recipe.replace(second_stage_steps=steps)
    reasons = {
        "backbone": "the network of the classifier, that of the shipped mapping",
        "size": f"photos are resized to {recipe.size} x {recipe.size} pixels, as for the shipped mapping",
        "first_steps": "training steps of f(0)" if recipe.first_steps else "fit only the last layer of f(0)",
        "from_scratch": "start from the shipped mapping's decoder and skip Algorithm 1; --from-scratch runs it",
        "second_stage_steps": f"steps in which the decoder adapts to these photos ({reason})",
    }
    lines = [f"{name} = {getattr(recipe, name)}: {text}" for name, text in reasons.items()]
    return recipe, [line + " (your choice)" * (line.split()[0] in changes) for line in lines], times
