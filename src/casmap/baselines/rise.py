"""Petsiuk et al. 2018, "RISE: Randomized Input Sampling for Explanation of Black-box Models".

    M_c(x, y) = 1 / N sum_n p_c(x m_n) m_n(x, y),    m_n: a random 7 x 7 grid of zeros and ones, enlarged and shifted

N = 8,000 masks, each cell 1 with probability 0.5. TorchRay implements it; it has not been maintained since 2020
(`casmap[torchray]`; its licence is for non-commercial use).
"""

import torch
from torch import Tensor

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.black_box import black_box
from casmap.models.classifier import Classifier

MASKS = 8000


def rise(classifier: Classifier, images: Tensor, classes: Tensor, masks: int = MASKS) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    from torchray.attribution import rise as library  # an extra of its own

    predict, found = black_box(classifier, images), []
    # One image and one class at a time: the library keeps a map for every class that it is given.
    for image, label in zip(images, classes.tolist(), strict=True):

        def log_odds(images: Tensor, label: int = label) -> Tensor:
            """TorchRay applies a sigmoid to the output; the sigmoid of the log odds is the paper's probability."""
            return torch.logit(predict(images).softmax(dim=1)[:, label, None], eps=1e-6)

        found.append(library.rise(log_odds, image[None], num_masks=masks)[0, 0])
    return torch.stack(found)


BASELINES.register("rise")(Baseline("RISE", "Petsiuk et al. 2018", rise, slow=4, batch=1, extra="torchray"))
