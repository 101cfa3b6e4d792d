"""Recipes: all options of a training run in one object."""

import dataclasses
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from casmap.errors import UserError, option
from casmap.io.reading import MAX_YAML, parse_yaml, read_text, reading, shown
from casmap.models.backbones import BACKBONE_SOURCES
from casmap.training.options_of_0_1_0 import REMOVED, current_names
from casmap.training.scores import SCORES
from casmap.training.thinning import THINNINGS, find_thinning

# The groups of options, by their first option: in `--help` and in the documentation.
GROUPS = {
    "backbone": "The two networks", "thinning": "Algorithm 1", "epochs": "Length",
    "classifier_lr": "Optimizers: SGD for the classifier, Adam for the mapping",
    "second_stage_steps": "The second stage, which the paper does not have",
    "first_steps": "Training f(0), if necessary: AdamW, one warm-up and one cosine decay",
    "smallest_crop": "Augmentation", "seed": "The run",
}  # fmt: skip


def _option(default: Any, help: str, *between: float) -> Any:
    return field(default=default, metadata={"help": help, "between": between})


@dataclass(frozen=True)
class Recipe:
    """How to train a mapping. The defaults are the paper's: ResNet-50, 224 pixels, 70 epochs of 20 % of ImageNet each.

    >>> Recipe().replace(thinning="L", batch=64).thinning
    'L'
    """

    # fmt: off
    backbone: str = _option("resnet50.tv_in1k",
        f"network of the classifier, such as resnet50 or lite0; from: {', '.join(BACKBONE_SOURCES.names)}")
    pretrained: bool = _option(True,
        "start from ImageNet weights (lite0 to lite2: from an installed package; others: from timm's hub)")
    weights: str | None = _option(None, "start from the backbone's weights in this safetensors file")
    encoder: Literal["shared", "separate", "first"] = _option(
        "shared", "encoder of the mapping: f itself, a separate one (Table 2, rows i-k), or f(0), unchanged")
    size: int = _option(224, "side of the training images, in pixels", 32, 2048)

    thinning: str = _option("L100",
        f"classifiers that the sample set F keeps: {', '.join(THINNINGS)} (F: the paper's Baseline, L100: its CASM)")
    period: int | None = _option(None, "keep the classifier of every n-th step in F (default: 100 for L100)", 1, 10**9)
    sample_limit: int = _option(30, "maximum number of classifiers in F", 2, 10**4)
    erase: Literal["pixels", "features"] = _option(
        "pixels", "what masks erase: pixels (the paper), or features of stride 16: faster, and only f's tail learns")
    score: str = _option("entropy", "score that the mapping maximises (activation needs --erase features)")
    loss: Literal["mixed", "masked"] = _option(
        "mixed", "images on which the classifier is trained: clean and masked (mixed), or masked only")
    masked_in: float = _option(
        0.0, "weight of a second term: f' should recognise what the mask keeps (the paper: 0)", 0, 1000)
    sharpness: float = _option(0.0, "weight of mean m(1 - m), which pushes masks to 0 and 1 (the paper: 0)", 0, 1000)
    reuse_masked: bool = _option(
        False, "reuse the classifier's masked pass for the mapping if f' is f: faster, deviates from Algorithm 1")
    lambda_r: float | None = _option(
        None, "lambda_R, the weight of a mask's area (default: the paper's, scaled to the number of classes)", 0, 10**6)
    area: float | None = _option(
        None, "adjust lambda_R so that the masks of Algorithm 1 cover this share of the pixels, e.g. 0.5", 0.01, 0.99)

    epochs: int = _option(70, "epochs of Algorithm 1; ignored with --steps", 1, 10**6)
    epoch_share: float = _option(0.2, "share of the photos, drawn at random, in each epoch", 1e-6, 1)
    steps: int | None = _option(None, "steps of Algorithm 1 (default: computed from the epochs)", 1, 10**9)
    batch: int = _option(128, "photos in a batch", 2, 10**6)

    classifier_lr: float = _option(0.001, "learning rate of the classifier (SGD)", 0, 100)
    momentum: float = _option(0.9, "momentum of the classifier's SGD", 0, 1)
    classifier_decay: float = _option(1e-4, "weight decay of the classifier", 0, 100)
    mapping_lr: float = _option(0.001, "learning rate of the mapping (Adam)", 0, 100)
    mapping_decay: float = _option(1e-4, "weight decay of the mapping", 0, 100)
    drop_every: float = _option(
        20 / 70, "share of the run after which both learning rates are divided by 10, repeatedly", 0.01, 1)
    clip: float = _option(10.0, "maximum norm of the mapping's gradient", 1e-9, 10**9)
    freeze_batch_norm: bool = _option(False, "keep the batch-norm statistics of f(0) during Algorithm 1")

    second_stage_steps: int = _option(
        0, "steps of the second stage, which trains the mapping on pseudo-masks (the paper: 0)", 0, 10**9)
    second_stage_lr: float = _option(3e-3, "maximum learning rate of the second stage (AdamW)", 0, 100)
    encoder_lr: float = _option(
        0.0, "maximum learning rate of the encoder in the second stage (0: only the decoder learns)", 0, 100)
    start_share: float = _option(
        0.0, "average the weights before and after the second stage: share of those before (0: none)", 0, 1)
    cam_size: int = _option(
        416, "side of the images from which the second stage's class activation maps are computed, in pixels", 32, 2048)
    pseudo_masks: Literal["cam", "edges", "seeds"] = _option(
        "cam", "pseudo-masks: the masks times the label's class activation map (cam), fitted to edges (edges), or "
        "grown from their sure pixels and fitted (seeds)")
    cam_gate: float = _option(
        0.1, "pseudo-masks from seeds fade where the label's class activation map is below this share of its maximum; "
        "0: no label is used", 0, 1)
    masks_from: str | None = _option(
        None, "skip Algorithm 1: the second stage uses the masks of this mapping (shipped: casmap's own)")
    from_scratch: bool = _option(
        True, "run Algorithm 1 and train a new decoder; do not start from the shipped mapping (default of recipes: on)")
    cam_scales: int = _option(
        1, "number of image sizes whose class activation maps are averaged: --cam-size, and each smaller by √2", 1, 5)
    second_stage_rounds: int = _option(
        1, "rounds of the second stage; each further round learns the masks of the previous one (self-training)", 1, 9)
    algorithm_size: int | None = _option(
        None, "side of the images in Algorithm 1, if smaller than size and a second stage follows", 32, 2048)

    first_steps: int | None = _option(
        None, "steps of training f(0), the initial classifier (0: only fit its head; default: by --first-epochs)", 0,
        10**9)
    first_if_better: bool = _option(
        False, "--first-steps only if the head alone is not good: then keep the better of both, by their accuracy on a "
        "held-out fifth")
    first_epochs: int = _option(90, "epochs (of all photos) of training f(0)", 1, 10**6)
    first_lr: float = _option(1e-3, "maximum learning rate of f(0)", 0, 100)
    first_decay: float = _option(0.05, "weight decay of f(0)", 0, 100)

    smallest_crop: float = _option(0.08, "minimum share of a photo that a random crop covers", 0.01, 1)
    flip: bool = _option(True, "flip half of the photos horizontally")

    seed: int = _option(0, "seed of all random numbers", 0, 2**31)
    held_out: float | None = _option(
        None, "share of the photos held out for the verdict (default: 0.1 in casmap train, 0 in studies)", 0, 0.5)
    device: str = _option("auto", "auto, cpu, cuda or mps")
    threads: int | None = _option(None, "CPU threads (default: torch's choice)", 1, 4096)
    unreadable: float = _option(0.01, "maximum share of unreadable photos, which are skipped", 0, 1)
    checkpoint_every: int = _option(200, "steps between two checkpoints", 1, 10**9)
    # fmt: on

    def __post_init__(self) -> None:
        find_thinning(self.thinning, self.period)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise UserError(
                    f"{option(name)} must be one of {', '.join(allowed)}, not {shown(getattr(self, name))}."
                )
        for entry in dataclasses.fields(self):
            value, between = getattr(self, entry.name), entry.metadata["between"]
            if value is not None and between and not between[0] <= value <= between[1]:  # nan is in no range
                raise UserError(
                    f"{option(entry.name)} must be between {between[0]:,} and {between[1]:,}, not {value:g}."
                )
        if self.lambda_r is not None and self.area is not None:
            raise UserError(f"Set {option('lambda_r')} or {option('area')}, not both: the second adjusts the first.")
        if self.reuse_masked and self.masked_in:
            raise UserError(f"{option('reuse_masked')} needs {option('masked_in', 0)}, not {self.masked_in:g}.")
        if self.erase == "features" and self.encoder != "first":
            raise UserError(f"Erasing features needs {option('encoder', 'first')}, not {self.encoder}.")
        if self.erase == "features" and self.reuse_masked:
            raise UserError(f"{option('reuse_masked')} needs {option('erase', 'pixels')}, not features.")
        if self.masks_from is not None and not self.second_stage_steps:
            raise UserError(f"{option('masks_from')} needs a second stage: set {option('second_stage_steps', 600)}.")
        if not self.from_scratch and not self.second_stage_steps:
            raise UserError(
                f"{option('from_scratch', False)} needs a second stage: set {option('second_stage_steps', 60)}."
            )
        if self.start_share and self.from_scratch:
            raise UserError(
                f"{option('start_share')} needs {option('from_scratch', False)}: a random start has no share."
            )
        if self.second_stage_steps and self.encoder == "separate":
            raise UserError(
                "The second stage needs an encoder that classifies, which a separate encoder does not: "
                f"set {option('second_stage_steps', 0)}."
            )

    @property
    def algorithm_side(self) -> int:
        """The side of the images in Algorithm 1 and in the training of f(0)."""
        return min(self.algorithm_size or self.size, self.size) if self.second_stage_steps else self.size

    def replace(self, /, **changes: Any) -> "Recipe":
        """A copy of the recipe with `changes`, each checked."""
        changes = current_names(changes)
        for name in REMOVED.keys() & changes:
            accepted, reason = REMOVED[name]
            if changes.pop(name) != accepted:
                raise UserError(f"The option {name} was removed in casmap 0.2.0 ({reason}): do not set it.")
        types = get_type_hints(type(self))
        if unknown := sorted(set(changes) - set(types)):
            near = get_close_matches(unknown[0], types, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(types)}."
            raise UserError(f"There is no option {shown(unknown[0])}; {hint}")
        for one, other in (("area", "lambda_r"), ("lambda_r", "area")):
            if changes.get(one) is not None:
                changes.setdefault(other, None)
        if changes.get("erase") == "features":
            changes.setdefault("encoder", "first")
        return dataclasses.replace(self, **{name: _typed(name, value, types[name]) for name, value in changes.items()})

    def options(self) -> dict[str, Any]:
        """All options by name, as they are saved with a run, a mapping and a study.

        Removed options of 0.1.0 stay in their place, so that runs and studies of 0.1.0 are recognised and continue.
        """
        options = dataclasses.asdict(self)
        last = {name: options.pop(name) for name in ("unreadable", "checkpoint_every")}
        return options | {name: accepted for name, (accepted, _) in REMOVED.items()} | last

    def published(self) -> dict[str, Any]:
        """All options as they are saved with a mapping: files by name only, because folders are private.

        >>> PHOTOS.replace(masks_from="/home/me/runs/first/mapping.safetensors").published()["masks_from"]
        'mapping.safetensors'
        """
        files = {name: Path(path).name for name in ("masks_from", "weights") if (path := getattr(self, name))}
        return self.options() | files

    def total_steps(self, photos: int) -> int:
        """The number of steps of Algorithm 1 for this number of photos; none with masks_from."""
        if self.masks_from is not None:
            return 0
        return self.steps or self.epochs * self.steps_in_epoch(photos, self.epoch_share)

    def total_first_steps(self, photos: int) -> int:
        """The number of steps of training f(0) for this number of photos."""
        return self.first_epochs * self.steps_in_epoch(photos, 1.0) if self.first_steps is None else self.first_steps

    def steps_in_epoch(self, photos: int, share: float) -> int:
        """Batches in an epoch over `share` of the photos; at least one."""
        return max(1, int(photos * share) // self.batch)


CHOICES: dict[str, Iterable[str]] = {
    name: get_args(kind) for name, kind in get_type_hints(Recipe).items() if get_origin(kind) is Literal
} | {"score": SCORES}

PAPER = Recipe()
QUICK = Recipe(
    backbone="test_resnet",  # the fastest to train from random weights on two cores: docs/experiments.md
    pretrained=False, size=96, thinning="L100", period=15, area=0.25, steps=450, batch=32, classifier_lr=0.02,
    mapping_lr=0.003, drop_every=0.5, first_steps=600, first_lr=3e-3, smallest_crop=0.5,
)  # fmt: skip
# A pretrained backbone and few photos, on a CPU: docs/experiments.md compares each value with its alternatives.
PHOTOS = Recipe(
    backbone="lite0", encoder="first", thinning="L100", period=20, score="doubt", masked_in=1.0, area=0.38,
    steps=480, batch=16, classifier_lr=3e-4, mapping_lr=1e-3, drop_every=0.5,
    second_stage_steps=600, algorithm_size=160,
    freeze_batch_norm=True,  # the statistics of 16 photos are worse than those of ImageNet
    first_steps=0, first_lr=3e-4,  # used only if first_steps is set
    smallest_crop=0.3, checkpoint_every=40,
)  # fmt: skip
# Learn the shipped mapping's masks, grown from their seeds and fitted to edges: experiment 52 in docs/experiments.md.
SEEDS = dataclasses.replace(
    PHOTOS, masks_from="shipped", pseudo_masks="seeds", size=288, second_stage_steps=400, batch=32, smallest_crop=0.4
)
# Images unlike photos, with small objects, such as ultrasound scans: experiment 59 in docs/experiments.md.
SCANS = dataclasses.replace(
    PHOTOS, erase="features", area=0.15, steps=160, period=8, drop_every=0.6, size=224, algorithm_size=None,
    smallest_crop=0.5, pseudo_masks="seeds", second_stage_steps=100, first_steps=240, first_if_better=True,
)  # fmt: skip
RECIPES = {"paper": PAPER, "quick": QUICK, "photos": PHOTOS, "seeds": SEEDS, "scans": SCANS}


def read_recipe(name_or_file: str) -> Recipe:
    """A recipe by name, or from a TOML, YAML or JSON file whose key `recipe` names the recipe that it changes."""
    if name_or_file in RECIPES:
        return RECIPES[name_or_file]
    path = Path(name_or_file)
    if not path.is_file():
        raise UserError(f"There is no recipe {name_or_file!r}: choose {', '.join(RECIPES)}, or a TOML or YAML file.")
    import yaml  # part of the extra train; a recipe by name does not need it

    with reading(path, f"Cannot read the recipe {path}: it is not valid TOML, YAML or JSON."):
        text = read_text(path, MAX_YAML)
        try:
            changes = tomllib.loads(text) if path.suffix == ".toml" else parse_yaml(text)
        except (ValueError, yaml.YAMLError) as error:
            raise UserError(f"Cannot read the recipe {path}: {str(error).splitlines()[0]:.200}.") from error
    if not isinstance(changes, dict) or not all(isinstance(key, str) for key in changes):
        raise UserError(f"The recipe {path} is not a list of options and values.")
    base = changes.pop("recipe", "paper")
    if not isinstance(base, str) or base not in RECIPES:
        raise UserError(f"The key recipe in {path} is {shown(base)}: choose from {', '.join(RECIPES)}.")
    try:
        return RECIPES[base].replace(**changes)
    except UserError as error:
        raise UserError(f"In the recipe {path}: {error}") from error


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}  # for messages


def _typed(name: str, value: Any, wanted: Any) -> Any:
    """Check a value against the type of its option; an int is accepted for a float."""
    kinds = [str] if get_origin(wanted) is Literal else list(get_args(wanted) or (wanted,))
    if type(value) is int and abs(value) >= 10**18:
        raise UserError(f"The option {option(name)} cannot be {shown(value)}: a number has at most 18 digits.")
    if float in kinds and (type(value) is int or type(value) is str):  # YAML reads 1e-3 as text
        with suppress(ValueError):
            return float(value)
    if type(value) not in kinds:  # exact types: True is not an int here
        wanted = " or ".join(WORDS[kind] for kind in kinds if kind is not type(None))
        raise UserError(f"{option(name)} must be {wanted}, not {shown(value)}.")
    return value
