"""What goes back through any backbone needs: its ReLUs, batch norms merged, sums shared, nothing done in place.

Reversed networks differ from the gradient, and from one another, in how they pass a ReLU; Zennit has the rules.

    deconvnet (Zeiler & Fergus 2014)           e -> max(e, 0)
    gradient  (Simonyan et al. 2013)           e -> e [x > 0]
    DeSaliNet (Mahendran & Vedaldi 2016)       e -> max(e, 0) [x > 0]

e comes back to a ReLU that x went into, beginning with the class's logit; convolutions are transposed, and max pooling
sends back to where the largest value was, in all three. The map is the largest absolute value over the colours, as
Simonyan's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from zennit.canonizers import MergeBatchNorm, SequentialMergeBatchNorm
from zennit.composites import LayerMapComposite
from zennit.core import Hook

from casmap.errors import UnsupportedBackbone
from casmap.models.classifier import Classifier

EPSILON = 1e-6
RELUS = (nn.ReLU, nn.ReLU6)
SUMS = (torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__iadd__)


class MergedNorms(SequentialMergeBatchNorm):  # type: ignore[misc]
    """Batch norms become part of the convolutions before them.

    zennit's own looks at leaves, and timm's batch norms hold their activation.
    """

    def apply(self, root_module: nn.Module) -> list[MergeBatchNorm]:
        """Merge what is found in `root_module`; each merge can undo itself."""
        merges, last = [], None
        for module in root_module.modules():
            if isinstance(module, nn.BatchNorm2d) and isinstance(last, nn.Conv2d):
                merge = self.copy()
                merge.register((last,), module)
                merges.append(merge)
            if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
                last = module
        return merges


class SharedSums(TorchFunctionMode):
    """Sends the relevance of a sum back to its two summands by their shares; a gradient would go to both in full.

    The residual connections of every backbone are such sums. excited: only the positive parts of summands have a share.
    """

    def __init__(self, excited: bool = False) -> None:
        super().__init__()
        self.excited = excited

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Whatever torch does, but for sums of two feature maps."""
        if func in SUMS and len(args) == 2 and all(isinstance(x, Tensor) and x.ndim == 4 for x in args):
            return _Share.apply(*args, self.excited)
        return func(*args, **(kwargs or {}))


class _Share(torch.autograd.Function):
    """a + b forward; R a / (a + b) and R b / (a + b) back."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, excited: bool) -> Tensor:
        ctx.save_for_backward(*((a.clamp_min(0), b.clamp_min(0)) if excited else (a, b)))
        return a + b

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        both = a + b
        share = relevance / (both + EPSILON * torch.where(both < 0, -1.0, 1.0))
        return a * share, b * share, None


def relus(classifier: Classifier) -> list[nn.Module]:
    """The ReLUs of a classifier, which some baselines are about; a backbone without any does not suit them.

    >>> len(relus(Classifier("test_resnet", classes=5)))
    12
    """
    found: list[nn.Module] = [module for module in classifier.modules() if isinstance(module, RELUS)]
    if not found:
        raise UnsupportedBackbone(f"{classifier.backbone} has no ReLU.")
    return found


@contextmanager
def not_in_place(network: nn.Module) -> Iterator[None]:
    """No activation overwrites its input while this lasts: rules must see it."""
    eager = [module for module in network.modules() if getattr(module, "inplace", False)]
    for module in eager:
        setattr(module, "inplace", False)  # noqa: B010
    try:
        yield
    finally:
        for module in eager:
            setattr(module, "inplace", True)  # noqa: B010


def sent_back(rule: Hook, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W), with this rule for ReLUs."""
    relus(classifier)  # without any it would be the gradient
    composite = LayerMapComposite([(RELUS, rule)])
    images = images.clone().requires_grad_(True)
    with torch.enable_grad(), not_in_place(classifier), composite.context(classifier):
        (found,) = torch.autograd.grad(classifier(images).gather(1, classes[:, None]).sum(), images)
    return found.abs().amax(dim=1)
