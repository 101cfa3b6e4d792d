"""Du et al. 2018, "Towards Explanation of DNN-based Prediction with Guided Feature Inversion".

    m = sum_k w_k A_k rescaled to 0..1,    x' = m x + (1 - m) blurred x,    x'' = (1 - m) x + m blurred x

    first:  min over w >= 0 of  |A(x') - A(x)|^2 / |A(x)|^2 + 5 |w|^2
    then:   min over w >= 0 of  p_c(x'') - p_c(x') + 2 |w|^2

A: the last feature maps. The authors use VGG's with a sixteenth of the image's side, which come after a ReLU; the inner
stages of many backbones do not, and those of lite0 give far worse results (docs/experiments.md). Adam from w = 0.1, 11
steps of the first objective and 69 of the second; the learning rate starts at 0.01 and is halved every 10 steps; blur
with a standard deviation of 11 pixels: the settings of the authors' code.
"""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.blurring import blur
from casmap.evaluation.rules import MeanThreshold
from casmap.models.class_activation import last_features, min_max
from casmap.models.classifier import Classifier

FIRST, STEPS = 11, 80
RATE, HALVED = 0.01, 10
BLUR = 11.0


def guided_feature_inversion(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, h, w)."""
    with torch.no_grad():
        features, _ = last_features(classifier, images)
        blurred = blur(images, BLUR)
    weights = torch.full(features.shape[:2], 0.1, requires_grad=True)
    optimizer = torch.optim.Adam([weights], RATE)
    with torch.enable_grad():
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = RATE * 0.5 ** (step // HALVED)
            m = interpolate(min_max(_mixed(weights, features))[:, None], images.shape[-2:], mode="bilinear")
            kept, logits = last_features(classifier, m * images + (1 - m) * blurred)
            norm = weights.square().sum(dim=1)
            if step < FIRST:
                distance = (kept - features).square().sum(dim=(1, 2, 3)) / features.square().sum(dim=(1, 2, 3))
                loss = distance + 5 * norm
            else:
                left = classifier((1 - m) * images + m * blurred)
                inside, outside = (y.softmax(dim=1).gather(1, classes[:, None])[:, 0] for y in (logits, left))
                loss = outside - inside + 2 * norm
            optimizer.zero_grad()
            loss.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                weights.clamp_(min=0)
    return _mixed(weights.detach(), features)


def _mixed(weights: Tensor, features: Tensor) -> Tensor:
    """Weights (N, K) and features (N, K, h, w) -> weighted sums (N, h, w)."""
    return torch.einsum("nk,nkhw->nhw", weights, features)


BASELINES.register("guided-feature-inversion")(Baseline(
    "guided feature inversion", "Du et al. 2018", guided_feature_inversion, MeanThreshold(), paper_le=38.2, slow=1
))  # fmt: skip
