"""Algorithm 1, classifier-agnostic saliency map extraction; and its S, R and L, with the paper's names.

The body of `casm` is the paper's five lines. Devices, logs and checkpoints are around it, in `loop.py`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from casmap.models.classifier import Classifier
from casmap.models.decoder import Mapping
from casmap.training.distributed import ONE_PROCESS, Processes, batch_norms
from casmap.training.lambda_r import LambdaR
from casmap.training.samples import Samples
from casmap.training.score import LossName, classification_loss, kept_loss, mask_in, mask_out, score


@dataclass
class Players:
    """All that Algorithm 1 changes, and how."""

    classifier: Classifier  # f
    mapping: Mapping  # m
    samples: Samples  # F
    lambda_r: LambdaR
    classifier_optimizer: Optimizer | None  # None: f stays f(0), thinning F
    mapping_optimizer: Optimizer
    score: str = "entropy"  # one of SCORES
    loss: LossName = "mixed"
    masked_in: float = 0.0  # weight of what the mask keeps; the paper has none
    clip: float = 10.0  # largest norm of the mapping's gradient
    freeze_batch_norm: bool = False
    reuse_masked: bool = False  # not quite Algorithm 1: see `step_classifier`
    processes: Processes = ONE_PROCESS  # the processes that share each batch


@dataclass
class Glance:
    """What one pass over the clean images gives, used by both steps of an iteration."""

    clean: Tensor  # f(x): (N, C)
    masks: Tensor  # m(x): (N, 1, H, W), with the graph of the mapping
    lambda_r: float  # the price of a pixel in this iteration
    # What the classifier's masked pass already tells the mapping: S(m, f), before f's step; f((1 - m) x): (N, C); and
    # how S changes with each pixel of the masks: (N, 1, H, W).
    reused: tuple[Tensor, Tensor, Tensor] | None = None


@dataclass(frozen=True)
class Measures:
    """What one iteration tells the log."""

    loss: Tensor
    score: Tensor
    area: Tensor
    accuracy: Tensor
    masked_accuracy: Tensor
    lambda_r: float
    samples: int


def casm(players: Players, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[Measures]:
    """Run Algorithm 1 over batches of images (N, 3, H, W) and labels (N,), yielding after each iteration."""
    f, F = players.classifier, players.samples  # noqa: N806 (the paper's names)
    for images, labels in batches:
        glance = look(players, images)
        # theta_f <- theta_f - eta_f grad L(m, f)
        loss = step_classifier(players, glance, images, labels)
        # F <- F + {f}
        F.add(f)
        # f' <- Sample(F), the newest half of the time
        sampled = F.draw()
        # theta_m <- theta_m + eta_m grad S(m, f')
        value, masked = step_mapping(players, glance, sampled, images, labels)
        # F <- Thin(F)
        F.thin()
        yield measure(players, glance, labels, loss, value, masked)


def look(players: Players, images: Tensor) -> Glance:
    """Classify the clean images and map them, in one pass of a shared encoder."""
    f, m = players.classifier, players.mapping
    f.train(players.classifier_optimizer is not None)
    for norm in batch_norms(f) if players.freeze_batch_norm else ():
        norm.eval()
    m.train()
    with torch.set_grad_enabled(players.classifier_optimizer is not None):
        clean, stages = f.look(images)
    return Glance(clean, m(images, stages), players.lambda_r.value)


def step_classifier(players: Players, glance: Glance, images: Tensor, labels: Tensor) -> Tensor:
    """One step of SGD on L(m, f) with respect to theta_f; returns L.

    Where f stays f(0) there is no step and no masked pass: the loss of the clean images is returned.

    reuse_masked: where f' will be this f, S is taken from this pass, before the step, and the mapping needs none of its
    own: an eighth of the work less, and the only deviation from Algorithm 1.
    """
    optimizer = players.classifier_optimizer
    if optimizer is None:
        return cross_entropy(glance.clean, labels)
    reuse = players.reuse_masked and players.samples.newest_is_next()
    masks = glance.masks.detach().requires_grad_(reuse)
    masked = players.classifier(mask_out(images, masks))
    if reuse:
        value = score(masked, glance.clean.detach(), labels, masks, glance.lambda_r, players.score)
        (pull,) = torch.autograd.grad(value, masks, retain_graph=True)
        glance.reused = value.detach(), masked.detach(), pull
    loss = classification_loss(masked, glance.clean, labels, players.loss)
    optimizer.zero_grad()
    learning = [weights for weights in players.classifier.parameters() if weights.requires_grad]
    loss.backward(inputs=learning)  # type: ignore[no-untyped-call]
    players.processes.average_gradients(learning)
    optimizer.step()
    return loss.detach()


def step_mapping(
    players: Players, glance: Glance, sampled: Classifier, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """One step up S(m, f') with respect to theta_m; returns S and the logits of f' on the masked images.

    The gradient passes through f' to its input only: its weights are no leaves here, so none is computed for them.
    """
    players.mapping_optimizer.zero_grad()
    if glance.reused is not None:
        value, masked, pull = glance.reused
        glance.masks.backward(-pull)  # type: ignore[no-untyped-call]
    else:
        with _input_gradient_only(sampled):
            masked = sampled(mask_out(images, glance.masks))
            value = score(masked, glance.clean.detach(), labels, glance.masks, glance.lambda_r, players.score)
            if players.masked_in:
                kept = sampled(mask_in(images, glance.masks))
                value = value - players.masked_in * kept_loss(kept, glance.clean.detach(), labels)
            (-value).backward()  # type: ignore[no-untyped-call]
    players.processes.average_gradients(players.mapping.parameters())
    torch.nn.utils.clip_grad_norm_(players.mapping.parameters(), players.clip)
    players.mapping_optimizer.step()
    players.processes.average_statistics(players.classifier, players.mapping)
    players.lambda_r.observe(float(players.processes.mean(glance.masks.detach().mean())))
    return value.detach(), masked.detach()


def measure(players: Players, glance: Glance, labels: Tensor, loss: Tensor, value: Tensor, masked: Tensor) -> Measures:
    """Gather what the log shows of an iteration: means over the whole batch."""
    right, masked_right = ((logits.argmax(dim=1) == labels).float().mean() for logits in (glance.clean, masked))
    parts = (loss, value, glance.masks.mean(), right, masked_right)
    means = players.processes.mean(torch.stack([part.detach().float() for part in parts]))
    loss, value, area, right, masked_right = means
    return Measures(loss, value, area, right, masked_right, glance.lambda_r, len(players.samples))


@contextmanager
def _input_gradient_only(classifier: Classifier) -> Iterator[None]:
    """Spare the backward pass the gradients of the classifier's weights."""
    live = [parameter for parameter in classifier.parameters() if parameter.requires_grad]
    for parameter in live:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in live:
            parameter.requires_grad_(True)
