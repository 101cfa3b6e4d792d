"""Algorithm 1, classifier-agnostic saliency map extraction, with the paper's names for f, m, F, S, R and L.

The body of `casm` is the paper's five lines. Devices, logs and checkpoints are handled in `loop.py`.
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
from casmap.models.split import Learner, Tail, Trunk
from casmap.training.distributed import ONE_PROCESS, Processes, batch_norms
from casmap.training.lambda_r import LambdaR
from casmap.training.recipes import Recipe
from casmap.training.samples import Samples
from casmap.training.score import classification_loss, kept_loss, mask_in, mask_out, score, softness
from casmap.training.scores import SCORES


@dataclass
class TrainingState:
    """The networks, the sample set and the optimizers of Algorithm 1, and the recipe with its other settings.

    If features are erased instead of pixels, f is a tail: it goes on learning from the features of a trunk, f(0).
    """

    classifier: Learner  # f
    mapping: Mapping  # m
    samples: Samples  # F
    lambda_r: LambdaR
    classifier_optimizer: Optimizer | None  # None: f stays f(0), thinning F
    mapping_optimizer: Optimizer
    recipe: Recipe
    processes: Processes = ONE_PROCESS  # the processes that share each batch
    trunk: Trunk | None = None  # None: pixels are erased

    @property
    def encoder(self) -> Classifier:
        """The classifier whose stages the decoder reads."""
        encoder = self.trunk.classifier if self.trunk else self.mapping.encoder or self.classifier
        assert isinstance(encoder, Classifier)
        return encoder


@dataclass
class CleanPass:
    """The results of the forward pass over the clean images; both steps of an iteration use them."""

    logits: Tensor  # f(x): (N, C)
    masks: Tensor  # m(x): (N, 1, H, W), with the mapping's graph
    lambda_r: float  # lambda_R in this iteration
    features: Tensor | None = None  # the trunk's features (N, K, h, w), if (1 - m) acts on them instead of the images
    # Only with reuse_masked, from the classifier's masked pass before f's step: S(m, f), f((1 - m) x) (N, C), and the
    # gradient of S with respect to the masks (N, 1, H, W).
    reused: tuple[Tensor, Tensor, Tensor] | None = None


@dataclass(frozen=True)
class Measures:
    """The values of one iteration that are logged."""

    loss: Tensor
    score: Tensor
    area: Tensor
    accuracy: Tensor
    masked_accuracy: Tensor
    lambda_r: float
    samples: int


def casm(state: TrainingState, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[Measures]:
    """Run Algorithm 1 over batches of images (N, 3, H, W) and labels (N,); yields after each iteration."""
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
    """Compute f(x) and m(x) on the clean images; a shared encoder runs once."""
    f, m = state.classifier, state.mapping
    f.train(state.classifier_optimizer is not None)
    for norm in batch_norms(f) if state.recipe.freeze_batch_norm else ():
        norm.eval()
    m.train()
    features, stages = state.trunk(images) if state.trunk else (None, [])
    with torch.set_grad_enabled(state.classifier_optimizer is not None):
        if isinstance(f, Classifier):
            logits, stages = f.forward_stages(images)
        else:
            logits = f(features)
    return CleanPass(logits, m(images, stages), state.lambda_r.value, features)


def step_classifier(state: TrainingState, clean: CleanPass, images: Tensor, labels: Tensor) -> Tensor:
    """Take one SGD step on L(m, f) with respect to theta_f; returns L.

    If f stays f(0), there is no step and no masked pass, and the loss on the clean images is returned.

    reuse_masked: if f' will be this f, S is computed from this masked pass, before the step, and the mapping needs no
    masked pass of its own. This saves an eighth of the work and is the only deviation from Algorithm 1.
    """
    optimizer = state.classifier_optimizer
    if optimizer is None:
        return cross_entropy(clean.logits, labels)
    reuse = state.recipe.reuse_masked and state.samples.newest_is_next()
    masks = clean.masks.detach().requires_grad_(reuse)
    masked = state.classifier(mask_out(_erasable(clean, images), masks))
    if reuse:
        value = _score(state, clean, masked, labels, masks)
        (mask_gradient,) = torch.autograd.grad(value, masks, retain_graph=True)
        clean.reused = value.detach(), masked.detach(), mask_gradient
    loss = classification_loss(masked, clean.logits, labels, state.recipe.loss)
    optimizer.zero_grad()
    trainable = [weights for weights in state.classifier.parameters() if weights.requires_grad]
    loss.backward(inputs=trainable)  # type: ignore[no-untyped-call]
    state.processes.average_gradients(trainable)
    optimizer.step()
    return loss.detach()


def step_mapping(
    state: TrainingState, clean: CleanPass, sampled: Learner, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Take one ascent step on S(m, f') with respect to theta_m; returns S and the logits of f' on the masked images.

    The gradient passes through f' to its input; no gradients of the weights of f' are computed.
    """
    state.mapping_optimizer.zero_grad()
    if clean.reused is not None:
        value, masked, mask_gradient = clean.reused
        clean.masks.backward(-mask_gradient)  # type: ignore[no-untyped-call]
    else:
        x = _erasable(clean, images)
        with _input_gradient_only(sampled):
            masked, activations = _run_masked(sampled, x, clean.masks, labels, state.recipe.score)
            value = _score(state, clean, masked, labels, clean.masks, activations)
            if state.recipe.masked_in:
                kept = sampled(mask_in(x, clean.masks))
                value = value - state.recipe.masked_in * kept_loss(kept, clean.logits.detach(), labels)
            (-value).backward()  # type: ignore[no-untyped-call]
    state.processes.average_gradients(state.mapping.parameters())
    torch.nn.utils.clip_grad_norm_(state.mapping.parameters(), state.recipe.clip)
    state.mapping_optimizer.step()
    state.processes.average_statistics(state.classifier, state.mapping)
    state.lambda_r.observe(float(state.processes.mean(clean.masks.detach().mean())))
    return value.detach(), masked.detach()


def measure(
    state: TrainingState, clean: CleanPass, labels: Tensor, loss: Tensor, value: Tensor, masked: Tensor
) -> Measures:
    """Collect the logged values of an iteration, as means over the whole batch."""
    accuracies = [(logits.argmax(dim=1) == labels).float().mean() for logits in (clean.logits, masked)]
    values = (loss, value, clean.masks.mean(), *accuracies)
    means = state.processes.mean(torch.stack([one.detach().float() for one in values]))
    loss, value, area, accuracy, masked_accuracy = means
    return Measures(loss, value, area, accuracy, masked_accuracy, clean.lambda_r, len(state.samples))


def _erasable(clean: CleanPass, images: Tensor) -> Tensor:
    """What (1 - m) acts on: the images, or the trunk's features."""
    return images if clean.features is None else clean.features


def _run_masked(
    sampled: Learner, x: Tensor, masks: Tensor, labels: Tensor, which: str
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """The logits of f' on (1 - m) x, and the label's activation after and before erasing, if the score takes them."""
    if not (isinstance(sampled, Tail) and SCORES[which].takes == "activation"):
        return sampled(mask_out(x, masks)), None
    masked, after = sampled.forward_activation(mask_out(x, masks), labels)
    with torch.no_grad():
        _, before = sampled.forward_activation(x, labels)
    return masked, (after, before)


def _score(
    state: TrainingState, clean: CleanPass, masked: Tensor, labels: Tensor, masks: Tensor,
    activations: tuple[Tensor, Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """S(m, f'), less the recipe's price of values between 0 and 1."""
    recipe, logits = state.recipe, clean.logits.detach()
    value = score(masked, logits, labels, masks, clean.lambda_r, recipe.score, activations)
    return value - recipe.sharpness * softness(masks, logits, labels) if recipe.sharpness else value


@contextmanager
def _input_gradient_only(classifier: Learner) -> Iterator[None]:
    """Compute no gradients of the classifier's weights inside the block."""
    trainable = [parameter for parameter in classifier.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
