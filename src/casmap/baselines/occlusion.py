"""Zeiler & Fergus 2014, "Visualizing and Understanding Convolutional Networks": occlusion.

    M_c(x, y) = mean over the grey squares that cover (x, y) of p_c(I) - p_c(I with the square)

A grey square slides over the image; where it lowers the probability of the class, it covers the object. The paper gives
no sizes; here the square has a quarter of the side of the image, and moves by a quarter of its own. Captum slides it.
"""

import torch
from captum.attr import Occlusion
from torch import Tensor
from torch.nn.functional import relu

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.black_box import black_box
from casmap.models.classifier import Classifier

SHARE = 4  # squares along a side
OVERLAP = 4  # steps along a square


def occlusion(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W)."""
    square = max(1, images.shape[-1] // SHARE)
    move = max(1, square // OVERLAP)
    predict = black_box(classifier, images)
    with torch.no_grad():
        found: Tensor = Occlusion(lambda images: predict(images).softmax(dim=1)).attribute(
            images, (images.shape[1], square, square), (images.shape[1], move, move), baselines=0.0, target=classes
        )  # 0 is the mean colour of normalised images
    return relu(found.mean(dim=1))  # a square that raises the probability does not cover the object


BASELINES.register("occlusion")(Baseline("occlusion", "Zeiler & Fergus 2014", occlusion, paper_le=48.6, slow=1))
