"""Cao et al. 2015, "Look and Think Twice": the feedback network.

    max over z in {0, 1} of S_c(I, z) - lambda |z|_1        every ReLU has a gate z: x -> z max(x, 0)

Gates that do not support the class are closed, from the top down: in the backward pass the gradient of S_c opens a
gate, z = 1, only where x dS_c/dx > 0, and passes through open gates only. Then the forward pass is repeated with these
gates. The map is the gradient of what is left, its largest absolute value over the colour channels. The paper repeats
this until nothing changes, in 10 to 50 rounds; here at most ROUNDS.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import relus, without_inplace
from casmap.evaluation.rules import energy
from casmap.models.classifier import Classifier

ROUNDS = 10


def feedback(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    images = images.clone().requires_grad_(True)
    gates: list[Tensor] = []
    with torch.enable_grad(), without_inplace(classifier):
        for _ in range(ROUNDS):
            with gated(classifier, gates) as opened:
                score = classifier(images).gather(1, classes[:, None]).sum()
                (found,) = torch.autograd.grad(score, images)
            if gates and all(torch.equal(old, new) for old, new in zip(gates, opened, strict=True)):
                break
            gates = opened
    return found.abs().amax(dim=1)


@contextmanager
def gated(classifier: Classifier, gates: list[Tensor]) -> Iterator[list[Tensor]]:
    """Apply gates to the outputs of the ReLUs, in the order of the forward pass; without gates, all are open.

    Yields the gates that the backward pass opens; the gradient passes through those only.
    """
    opened: list[Tensor] = []

    def apply_gate(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        place = len(opened)
        passed = output * gates[place] if gates else output
        value = passed.detach()
        opened.append(value.new_zeros(()).expand_as(value))  # closed until the backward pass

        def open_gates(gradient: Tensor) -> Tensor:
            opened[place] = (value * gradient > 0).to(gradient.dtype)  # 0 where the gate was closed already
            return gradient * opened[place]

        if passed.requires_grad:
            passed.register_hook(open_gates)  # type: ignore[no-untyped-call]
        return passed

    hooks = [module.register_forward_hook(apply_gate) for module in relus(classifier)]
    try:
        yield opened
    finally:
        for hook in hooks:
            hook.remove()


BASELINES.register("feedback")(Baseline("feedback", "Cao et al. 2015", feedback, energy(0.95), paper_le=38.8))
