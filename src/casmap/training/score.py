"""S, R and L: what the mapping maximises and what the classifier minimises, with the paper's names."""

from typing import Literal

from torch import Tensor
from torch.nn.functional import cross_entropy, interpolate

from casmap.training.scores import SCORES

LossName = Literal["mixed", "masked"]


def mask_out(images: Tensor, masks: Tensor) -> Tensor:
    """(1 - m(x)) * x: images (N, 3, H, W), masks (N, 1, H, W). Images are normalised, so 0 is the mean colour.

    Features (N, K, h, w) can take the place of images: masks are averaged to their grid.

    >>> import torch
    >>> mask_out(torch.ones(1, 8, 1, 1), torch.tensor([[[[0.0, 0.5]]]]))[0, 0]
    tensor([[0.7500]])
    """
    return (1 - _on_grid(masks, images)) * images


def mask_in(images: Tensor, masks: Tensor) -> Tensor:
    """m(x) * x: what the mask keeps; shapes as in `mask_out`."""
    return _on_grid(masks, images) * images


def _on_grid(masks: Tensor, images: Tensor) -> Tensor:
    """Masks (N, 1, h, w), each value the mean over its part of the masks (N, 1, H, W)."""
    size = images.shape[-2:]
    return masks if masks.shape[-2:] == size else interpolate(masks, size, mode="area")


def classification_loss(masked: Tensor, clean: Tensor, labels: Tensor, which: LossName = "mixed") -> Tensor:
    """L(m, f): cross-entropy on the masked images ("masked"), or its mean with that on the clean images ("mixed").

    >>> import torch
    >>> clean, masked = torch.tensor([[9.0, -9.0]]), torch.zeros(1, 2)
    >>> classification_loss(masked, clean, torch.tensor([0]))  # (ln 2 + 0) / 2
    tensor(0.3466)
    """
    loss = cross_entropy(masked, labels)
    return loss if which == "masked" else (loss + cross_entropy(clean, labels)) / 2


def score(
    masked: Tensor, clean: Tensor, labels: Tensor, masks: Tensor, lambda_r: float, which: str = "entropy",
    activations: tuple[Tensor, Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """S(m, f') = 1/N sum [ H(f'((1 - m(x)) * x)) - lambda_R |m(x)|_1 ], with |.|_1 as the mean of the mask.

    Both terms count only images that the current classifier f classifies correctly when clean. The regulariser R
    counts only those of them that f' misclassifies when masked. which: the name of a score, whose gain replaces H.

    masked: logits of f' (N, C); clean: logits of f (N, C); masks: (N, 1, H, W). activations: for a score that takes
    them, the label's activation in f' after and before erasing, each (N,). Such a score falls gradually where H jumps,
    so R counts every image that f classifies correctly.

    >>> import torch
    >>> masked, clean = torch.tensor([[0.0, 0.1]]), torch.tensor([[5.0, 0.0]])
    >>> mask = torch.full((1, 1, 4, 4), 0.25)
    >>> score(masked, clean, torch.tensor([0]), mask, lambda_r=2.0)  # correct clean, wrong masked: H - 2 * 0.25
    tensor(0.1919)
    """
    correct = clean.argmax(dim=1) == labels
    if activations is None:
        gain = SCORES[which].gain(masked, labels)
        priced = correct & (masked.argmax(dim=1) != labels)
    else:
        gain, priced = SCORES[which].gain(*activations), correct
    area = masks.mean(dim=(1, 2, 3))
    return (correct * gain - lambda_r * priced * area).mean()


def kept_loss(kept: Tensor, clean: Tensor, labels: Tensor) -> Tensor:
    """1/N sum l(f'(m(x) * x), y): f' should still recognise the class in what the mask keeps.

    The paper has no such term; its successor (Phang, Park, Geras 2020) does. As in S, only images count that f
    classifies correctly when clean. kept: logits of f' on masked-in images (N, C).

    >>> import torch
    >>> sure, unsure = torch.tensor([[5.0, 0.0]]), torch.zeros(1, 2)
    >>> kept_loss(unsure, sure, torch.tensor([0])), kept_loss(unsure, sure, torch.tensor([1]))  # ln 2; f is wrong
    (tensor(0.6931), tensor(0.))
    """
    correct = clean.argmax(dim=1) == labels
    return (correct * cross_entropy(kept, labels, reduction="none")).mean()


def softness(masks: Tensor, clean: Tensor, labels: Tensor) -> Tensor:
    """1/N sum mean m(x) (1 - m(x)): 0 for masks of 0 and 1, at most 1/4. The paper has no such term.

    As in S, only images count that f classifies correctly when clean. masks: (N, 1, H, W); clean: logits of f (N, C).

    >>> import torch
    >>> softness(torch.tensor([[[[0.5, 1.0]]]]), torch.tensor([[5.0, 0.0]]), torch.tensor([0]))
    tensor(0.1250)
    """
    correct = clean.argmax(dim=1) == labels
    return (correct * (masks * (1 - masks)).mean(dim=(1, 2, 3))).mean()
