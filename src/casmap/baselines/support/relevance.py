"""Backpropagation of relevance through any backbone: ReLUs, merged batch norms, shared sums, nothing in place.

These methods differ in how the backward signal passes a ReLU; Zennit implements the rules.

    deconvnet (Zeiler & Fergus 2014)           e -> max(e, 0)
    gradient  (Simonyan et al. 2013)           e -> e [x > 0]
    DeSaliNet (Mahendran & Vedaldi 2016)       e -> max(e, 0) [x > 0]

e is the backward signal at a ReLU with input x; it starts at the class's logit. All three transpose convolutions and
send the signal of a max pooling to the position of the maximum. The map is the largest absolute value over the colour
channels, as Simonyan's.
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
    """Merge batch norms into the convolutions before them.

    zennit's own canonizer looks at leaf modules only, and timm's batch norms contain their activation.
    """

    def apply(self, root_module: nn.Module) -> list[MergeBatchNorm]:
        """Merge the batch norms of `root_module`; each merge can be undone."""
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
    """Send the relevance of a sum back to its two summands in proportion; a gradient would go to both in full.

    The residual connections of backbones are such sums. excited: only the positive parts of summands count.
    """

    def __init__(self, excited: bool = False) -> None:
        super().__init__()
        self.excited = excited

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace sums of two feature maps; leave all other functions unchanged."""
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
    """The ReLUs of a classifier; an error for a backbone without any, which these baselines cannot explain.

    >>> len(relus(Classifier("test_resnet", classes=5)))
    12
    """
    found: list[nn.Module] = [module for module in classifier.modules() if isinstance(module, RELUS)]
    if not found:
        raise UnsupportedBackbone(f"{classifier.backbone} has no ReLU.")
    return found


@contextmanager
def without_inplace(network: nn.Module) -> Iterator[None]:
    """No activation overwrites its input inside this context, because the rules need it."""
    inplace = [module for module in network.modules() if getattr(module, "inplace", False)]
    for module in inplace:
        setattr(module, "inplace", False)  # noqa: B010
    try:
        yield
    finally:
        for module in inplace:
            setattr(module, "inplace", True)  # noqa: B010


def backpropagate(rule: Hook, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W), with this rule at ReLUs."""
    relus(classifier)  # an error without ReLUs: the result would be the gradient
    composite = LayerMapComposite([(RELUS, rule)])
    images = images.clone().requires_grad_(True)
    with torch.enable_grad(), without_inplace(classifier), composite.context(classifier):
        (found,) = torch.autograd.grad(classifier(images).gather(1, classes[:, None]).sum(), images)
    return found.abs().amax(dim=1)
