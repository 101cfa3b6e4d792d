"""Fong & Vedaldi 2017, "Interpretable Explanations of Black Boxes by Meaningful Perturbation": the deletion game.

    min over m in [0, 1] of  l1 sum_u |1 - m(u)| + l2 sum_u |grad m(u)|^3 + E_t p_c(x'(. - t))

    x' = m x + (1 - m) blurred x

The map is 1 - m. m has 28 x 28 values, upsampled with a Gaussian kernel (standard deviation 5); l1 = 0.0001,
l2 = 0.01; blur with a standard deviation of 10; jitter t up to 4 pixels; Adam, 300 steps, learning rate 0.1; m starts
as the smallest central disc that causes 99 % of the drop that blurring everything causes: the paper's settings.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.blurring import blur
from casmap.evaluation.rules import MeanThreshold
from casmap.models.classifier import Classifier

SIDE = 28
L1, L2, BETA = 1e-4, 1e-2, 3
STEPS, RATE = 300, 0.1
BLUR, SMOOTH, JITTER = 10.0, 5.0, 4
ENOUGH = 0.99


def meaningful_perturbation(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    blurred = blur(images, BLUR)
    mask = smallest_discs(classifier, images, blurred, classes).requires_grad_(True)
    optimizer = torch.optim.Adam([mask], RATE)
    generator = torch.Generator().manual_seed(0)
    with torch.enable_grad():
        for _ in range(STEPS):
            down, right = torch.randint(JITTER + 1, (2,), generator=generator).tolist()
            shifted = torch.roll(perturbed(images, blurred, mask), (down, right), dims=(2, 3))
            probability = classifier(shifted).softmax(dim=1).gather(1, classes[:, None]).sum()
            loss = L1 * (1 - mask).abs().sum() + L2 * variation(mask) + probability
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                mask.clamp_(0, 1)
    return 1 - upsampled(mask.detach(), images)[:, 0]


def perturbed(images: Tensor, blurred: Tensor, mask: Tensor) -> Tensor:
    """The images where the mask (N, 1, 28, 28) is 1, blurred where it is 0."""
    m = upsampled(mask, images)
    return m * images + (1 - m) * blurred


def upsampled(mask: Tensor, images: Tensor) -> Tensor:
    """A mask (N, 1, 28, 28) at the size of the images: (N, 1, H, W)."""
    down, right = (_upsampling(side) for side in images.shape[-2:])
    return down @ mask @ right.T


@cache
def _upsampling(side: int) -> Tensor:
    """The matrix that upsamples 28 values of a row or column to the pixels of a side: (side, 28)."""
    columns = torch.eye(SIDE)[:, None, :, None]  # each is a unit vector
    return blur(interpolate(columns, (side, 1), mode="bilinear"), SMOOTH)[:, 0, :, 0].T


def variation(mask: Tensor) -> Tensor:
    """Sum of the absolute differences of neighbours, to the power of 3.

    >>> variation(torch.tensor([[[[0.0, 0.5], [0.0, 0.5]]]]))
    tensor(0.2500)
    """
    down, right = ((mask.diff(dim=dim).abs() ** BETA).sum() for dim in (2, 3))
    return down + right


def smallest_discs(classifier: Classifier, images: Tensor, blurred: Tensor, classes: Tensor) -> Tensor:
    """Masks (N, 1, 28, 28), 0 in the smallest central disc that causes 99 % of the drop that a full blur causes."""
    centre = torch.arange(SIDE) - (SIDE - 1) / 2
    distance = (centre[:, None].square() + centre.square()).sqrt()

    def probability(images: Tensor) -> Tensor:
        logits: Tensor = classifier(images)
        return logits.softmax(dim=1).gather(1, classes[:, None])[:, 0]

    with torch.no_grad():
        whole, nothing = probability(images), probability(blurred)
        masks = torch.zeros(len(images), 1, SIDE, SIDE)
        waiting = torch.ones(len(images), dtype=torch.bool)
        for radius in range(1, SIDE):
            disc = (distance > radius).float().expand(len(images), 1, SIDE, SIDE)
            enough = whole - probability(perturbed(images, blurred, disc)) >= ENOUGH * (whole - nothing)
            masks[waiting & enough] = disc[waiting & enough]
            waiting &= ~enough
            if not waiting.any():
                break
    return masks


BASELINES.register("meaningful-perturbation")(Baseline(
    "meaningful perturbation", "Fong & Vedaldi 2017", meaningful_perturbation, MeanThreshold(), paper_le=43.1, slow=1
))  # fmt: skip
