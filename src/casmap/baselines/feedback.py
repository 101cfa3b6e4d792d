"""Cao et al. 2015, "Look and Think Twice": the feedback network.

    max over z in {0, 1} of S_c(I, z) - lambda |z|_1        every ReLU has a gate z: x -> z max(x, 0)

Gates that do not speak for the class are closed, from the top down: on its way back the gradient of S_c opens a gate,
z = 1, only where x dS_c/dx > 0, and passes open gates only. Then the picture is looked at again through them. The map
is the gradient of what is left, its largest absolute value over the colours. The paper repeats until nothing changes,
in 10 to 50 rounds; here at most ROUNDS.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.relevance import not_in_place, relus
from casmap.evaluation.rules import energy
from casmap.models.classifier import Classifier

ROUNDS = 10


def feedback(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W).

    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> feedback(f, torch.rand(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 64, 64])
    """
    images = images.clone().requires_grad_(True)
    gates: list[Tensor] = []
    with torch.enable_grad(), not_in_place(classifier):
        for _ in range(ROUNDS):
            with gated(classifier, gates) as speaking:
                score = classifier(images).gather(1, classes[:, None]).sum()
                (found,) = torch.autograd.grad(score, images)
            if gates and all(torch.equal(old, new) for old, new in zip(gates, speaking, strict=True)):
                break
            gates = speaking
    return found.abs().amax(dim=1)


@contextmanager
def gated(classifier: Classifier, gates: list[Tensor]) -> Iterator[list[Tensor]]:
    """Put the gates behind the ReLUs, in the order in which they are passed; with none yet, all are open.

    Gives the gates that a gradient opens on its way back, which passes through those only.
    """
    speaking: list[Tensor] = []

    def pass_gate(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        place = len(speaking)
        passed = output * gates[place] if gates else output
        seen = passed.detach()
        speaking.append(seen.new_zeros(()).expand_as(seen))  # closed, until the gradient comes back

        def come_back(gradient: Tensor) -> Tensor:
            speaking[place] = (seen * gradient > 0).to(gradient.dtype)  # 0 where the gate was closed before
            return gradient * speaking[place]

        if passed.requires_grad:
            passed.register_hook(come_back)  # type: ignore[no-untyped-call]
        return passed

    hooks = [module.register_forward_hook(pass_gate) for module in relus(classifier)]
    try:
        yield speaking
    finally:
        for hook in hooks:
            hook.remove()


BASELINES.register("feedback")(Baseline("feedback", "Cao et al. 2015", feedback, energy(0.95), paper_le=38.8))
