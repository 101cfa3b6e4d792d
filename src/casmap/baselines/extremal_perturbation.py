"""Fong et al. 2019, "Understanding Deep Networks via Extremal Perturbations and Smooth Masks".

    m_a = argmax over smooth masks m of area a of  S_c(m x + (1 - m) blurred x)

The map is the sum of m_a for a = 0.025, 0.05, 0.1 and 0.2, smoothed by 0.09 of the image's side, 800 steps: the
settings of the authors' library, TorchRay, in its own benchmark. TorchRay has not been maintained since 2020
(`casmap[torchray]`; its licence is for non-commercial use).
"""

import torch
from torch import Tensor

from casmap.baselines import BASELINES, Baseline
from casmap.models.classifier import Classifier

AREAS, SMOOTH, STEPS = (0.025, 0.05, 0.1, 0.2), 0.09, 800


def extremal_perturbation(classifier: Classifier, images: Tensor, classes: Tensor, steps: int = STEPS) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    from torchray.attribution import extremal_perturbation as library  # an extra of its own

    torch.manual_seed(0)  # the library flips the image at random
    options = {"areas": list(AREAS), "max_iter": steps, "smooth": SMOOTH, "resize": True}
    pairs = zip(images[:, None], classes.tolist(), strict=True)
    with torch.enable_grad():
        found = [library.extremal_perturbation(classifier, *pair, **options)[0].detach() for pair in pairs]
    return torch.stack([masks.sum(dim=(0, 1)) for masks in found])


BASELINES.register("extremal-perturbation")(
    Baseline("extremal perturbation", "Fong et al. 2019", extremal_perturbation, slow=10, batch=1, extra="torchray")
)
