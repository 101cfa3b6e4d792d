"""Studies that train, and the resources that they need: runs, steps, disk, memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.paper.outcome import Outcome
from casmap.paper.setting import Setting
from casmap.training.recipes import Recipe
from casmap.training.thinning import find_thinning

FLOAT = 4  # bytes
GRAPHS = 2  # passes whose activations are kept for gradients: clean and masked; one more for a separate encoder


@dataclass(frozen=True)
class Planned:
    """Trainings of one kind: how many, and on how many photos and classes.

    first: whether each trains an f(0). maps: whether each trains a mapping.
    """

    what: str
    recipe: Recipe
    photos: int
    classes: int
    runs: int = 1
    first: bool = False
    maps: bool = True

    @property
    def first_steps(self) -> int:
        """Steps of training f(0), summed over all runs."""
        return self.runs * self.recipe.total_first_steps(self.photos) if self.first else 0

    @property
    def steps(self) -> int:
        """Steps of Algorithm 1, summed over all runs."""
        return self.runs * self.recipe.total_steps(self.photos) if self.maps else 0


def planned_first(setting: Setting, photos: int, classes: int) -> list[Planned]:
    """The training of f(0), unless pretrained weights know the classes already."""
    first = Planned("f(0)", setting.recipe, photos, classes, first=True, maps=False)
    return [first] if setting.trains_first(classes) else []


def planned_mappings(
    setting: Setting, photos: int, classes: int, recipes: Mapping[str, Recipe], runs: int = 1
) -> list[Planned]:
    """Mappings by name, each trained `runs` times, all from one f(0)."""
    named = [Planned(name, recipe, photos, classes, runs) for name, recipe in recipes.items()]
    return planned_first(setting, photos, classes) + named


@dataclass(frozen=True)
class Experiment:
    """A study that trains; the module casmap.paper.NAME defines that of `casmap study NAME` as STUDY.

    run(setting, *, out, reporter, **options): run it; options are the study's own. plan(setting, photos, classes,
    **options): its trainings. fetched(setting, **options): classifiers whose weights are downloaded.
    """

    run: Callable[..., Outcome]
    plan: Callable[..., list[Planned]]
    fetched: Callable[..., Sequence[str]] = lambda setting, **options: ()


def disk(one: Planned) -> float:
    """Bytes of the files that the runs keep, and of two checkpoints while one runs."""
    f, decoder = sizes(one.recipe.backbone, one.classes)
    encoders = 2 if one.maps and one.recipe.encoder != "shared" else 1
    files = f + (encoders * f + decoder if one.maps else 0)
    checkpoint = 2 * f + encoders * f + 3 * decoder + samples(one) * f if one.maps else 3 * f
    return FLOAT * (one.runs * files + 2 * checkpoint)


def memory(one: Planned) -> float:
    """Peak memory of one run in bytes."""
    f, decoder = sizes(one.recipe.backbone, one.classes)
    separate = one.maps and one.recipe.encoder == "separate"
    trained = 3 * f + 4 * decoder + 4 * f * separate
    graphs = GRAPHS + separate if one.maps else 1
    seen = activations(one.recipe.backbone, one.recipe.size) * one.recipe.batch * graphs
    return FLOAT * (trained + samples(one) * f + seen)


def samples(one: Planned) -> int:
    """The largest number of classifiers in the sample set besides the one in training."""
    thinning = find_thinning(one.recipe.thinning, one.recipe.period)
    return 1 + thinning.copies(one.recipe.sample_limit) if one.maps else 0


@lru_cache
def sizes(backbone: str, classes: int) -> tuple[int, int]:
    """The number of values in a classifier and in its decoder."""
    f = Classifier(backbone, classes)
    return _count(f), _count(Decoder(f.stage_channels))


@lru_cache
def activations(backbone: str, size: int) -> int:
    """The number of outputs of all layers for one image, which a pass keeps for its gradients."""
    f, counts = Classifier(backbone, 2).eval(), []

    def add(_layer: nn.Module, _inputs: object, output: object) -> None:
        counts.append(output.numel() if isinstance(output, Tensor) else 0)

    for layer in f.modules():
        if not list(layer.children()):
            layer.register_forward_hook(add)
    with torch.no_grad():
        f(torch.zeros(1, 3, size, size))
    return sum(counts)


def _count(module: nn.Module) -> int:
    return sum(tensor.numel() for tensor in module.state_dict().values())
