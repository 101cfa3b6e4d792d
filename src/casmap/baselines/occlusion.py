"""Zeiler & Fergus 2014, "Visualizing and Understanding Convolutional Networks": occlusion.

    M_c(x, y) = mean over the grey squares that cover (x, y) of p_c(I) - p_c(I with the square)

A grey square slides over the picture; where the class is lost, the object was. The paper gives no sizes; here the
square has a quarter of the picture's side, and moves by a quarter of its own. Captum slides it.
"""

import torch
from captum.attr import Occlusion
from torch import Tensor
from torch.nn.functional import relu

from casmap.baselines import BASELINES, Baseline
from casmap.baselines.support.black_box import black_box
from casmap.models.classifier import Classifier

SHARE = 4  # squares of a side
OVERLAP = 4  # moves of a square


def occlusion(classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
    """Images (N, 3, H, W), classes (N,) -> maps (N, H, W).

    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> occlusion(f, torch.rand(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 64, 64])
    """
    square = max(1, images.shape[-1] // SHARE)
    move = max(1, square // OVERLAP)
    asked = black_box(classifier, images)
    with torch.no_grad():
        found: Tensor = Occlusion(lambda pictures: asked(pictures).softmax(dim=1)).attribute(
            images, (images.shape[1], square, square), (images.shape[1], move, move), baselines=0.0, target=classes
        )  # 0 is the mean colour: pictures are normalised
    return relu(found.mean(dim=1))  # what is seen better without a square is not there


BASELINES.register("occlusion")(Baseline("occlusion", "Zeiler & Fergus 2014", occlusion, paper_le=48.6, slow=1))
