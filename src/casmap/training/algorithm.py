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
class TrainingState:
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
class CleanPass:
    """What one pass over the clean images gives, used by both steps of an iteration."""

    logits: Tensor  # f(x): (N, C)
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


def casm(state: TrainingState, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[Measures]:
    """Run Algorithm 1 over batches of images (N, 3, H, W) and labels (N,), yielding after each iteration."""
    f, F = state.classifier, state.samples  # noqa: N806 (the paper's names)
    for images, labels in batches:
        clean = run_clean_pass(state, images)
        # theta_f <- theta_f - eta_f grad L(m, f)
        loss = step_classifier(state, clean, images, labels)
        # F <- F + {f}
        F.add(f)
        # f' <- Sample(F), the newest half of the time
        sampled = F.draw()
        # theta_m <- theta_m + eta_m grad S(m, f')
        value, masked = step_mapping(state, clean, sampled, images, labels)
        # F <- Thin(F)
        F.thin()
        yield measure(state, clean, labels, loss, value, masked)


def run_clean_pass(state: TrainingState, images: Tensor) -> CleanPass:
    """Classify the clean images and map them, in one pass of a shared encoder."""
    f, m = state.classifier, state.mapping
    f.train(state.classifier_optimizer is not None)
    for norm in batch_norms(f) if state.freeze_batch_norm else ():
        norm.eval()
    m.train()
    with torch.set_grad_enabled(state.classifier_optimizer is not None):
        logits, stages = f.forward_stages(images)
    return CleanPass(logits, m(images, stages), state.lambda_r.value)


def step_classifier(state: TrainingState, clean: CleanPass, images: Tensor, labels: Tensor) -> Tensor:
    """One step of SGD on L(m, f) with respect to theta_f; returns L.

    Where f stays f(0) there is no step and no masked pass: the loss of the clean images is returned.

    reuse_masked: where f' will be this f, S is taken from this pass, before the step, and the mapping needs none of its
    own: an eighth of the work less, and the only deviation from Algorithm 1.
    """
    optimizer = state.classifier_optimizer
    if optimizer is None:
        return cross_entropy(clean.logits, labels)
    reuse = state.reuse_masked and state.samples.newest_is_next()
    masks = clean.masks.detach().requires_grad_(reuse)
    masked = state.classifier(mask_out(images, masks))
    if reuse:
        value = score(masked, clean.logits.detach(), labels, masks, clean.lambda_r, state.score)
        (pull,) = torch.autograd.grad(value, masks, retain_graph=True)
        clean.reused = value.detach(), masked.detach(), pull
    loss = classification_loss(masked, clean.logits, labels, state.loss)
    optimizer.zero_grad()
    learning = [weights for weights in state.classifier.parameters() if weights.requires_grad]
    loss.backward(inputs=learning)  # type: ignore[no-untyped-call]
    state.processes.average_gradients(learning)
    optimizer.step()
    return loss.detach()


def step_mapping(
    state: TrainingState, clean: CleanPass, sampled: Classifier, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """One step up S(m, f') with respect to theta_m; returns S and the logits of f' on the masked images.

    The gradient passes through f' to its input only: its weights are no leaves here, so none is computed for them.
    """
    state.mapping_optimizer.zero_grad()
    if clean.reused is not None:
        value, masked, pull = clean.reused
        clean.masks.backward(-pull)  # type: ignore[no-untyped-call]
    else:
        with _input_gradient_only(sampled):
            masked = sampled(mask_out(images, clean.masks))
            value = score(masked, clean.logits.detach(), labels, clean.masks, clean.lambda_r, state.score)
            if state.masked_in:
                kept = sampled(mask_in(images, clean.masks))
                value = value - state.masked_in * kept_loss(kept, clean.logits.detach(), labels)
            (-value).backward()  # type: ignore[no-untyped-call]
    state.processes.average_gradients(state.mapping.parameters())
    torch.nn.utils.clip_grad_norm_(state.mapping.parameters(), state.clip)
    state.mapping_optimizer.step()
    state.processes.average_statistics(state.classifier, state.mapping)
    state.lambda_r.observe(float(state.processes.mean(clean.masks.detach().mean())))
    return value.detach(), masked.detach()


def measure(
    state: TrainingState, clean: CleanPass, labels: Tensor, loss: Tensor, value: Tensor, masked: Tensor
) -> Measures:
    """Gather what the log shows of an iteration: means over the whole batch."""
    right, masked_right = ((logits.argmax(dim=1) == labels).float().mean() for logits in (clean.logits, masked))
    parts = (loss, value, clean.masks.mean(), right, masked_right)
    means = state.processes.mean(torch.stack([part.detach().float() for part in parts]))
    loss, value, area, right, masked_right = means
    return Measures(loss, value, area, right, masked_right, clean.lambda_r, len(state.samples))


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
