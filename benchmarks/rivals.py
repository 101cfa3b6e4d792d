"""Speed of slow baselines of Table 1 with faster engines and masks that give the same maps: benchmarks/rivals.py."""

import warnings

import torch
from bench import in_turns, ratio, report
from torch import Tensor
from torch.nn.functional import interpolate

from casmap.baselines.lrp import lrp
from casmap.baselines.meaningful_perturbation import SIDE, SMOOTH, upsampled
from casmap.baselines.support.black_box import black_box
from casmap.baselines.support.blurring import blur
from casmap.io.memory import reuse_memory
from casmap.models.classifier import Classifier
from casmap.models.folding import folded

PHOTOS, PIXELS, ROUNDS = 8, 224, 5


def main() -> None:
    """Time random weights, which take as long as trained ones."""
    reuse_memory()
    warnings.simplefilter("ignore")  # deprecation warnings of libraries
    f = Classifier("tf_efficientnet_lite0", 1000).eval().requires_grad_(False).to(memory_format=torch.channels_last)
    images, classes = torch.rand(PHOTOS, 3, PIXELS, PIXELS), torch.arange(PHOTOS)
    quick = folded(f)
    predict = black_box(quick, images)
    small = torch.rand(PHOTOS, 1, SIDE, SIDE).requires_grad_(True)

    def smoothed() -> Tensor:
        return blur(interpolate(small, (PIXELS, PIXELS), mode="bilinear"), SMOOTH)

    ways = {
        "matrices": lambda: gradient(upsampled(small, images), small),
        "convolutions": lambda: gradient(smoothed(), small),
        "ONNX Runtime": lambda: predict(images),
        "torch": lambda: quick(images),
        "LRP, folded": lambda: lrp(quick, images, classes),
        "LRP": lambda: lrp(f, images, classes),
    }
    times = in_turns(ways, ROUNDS)
    report(
        [
            ratio(
                "masks of meaningful perturbation with their gradient: convolutions / two products",
                times["convolutions"],
                times["matrices"],
                photos=PHOTOS,
            ),
            ratio(
                "lite0 that is only asked: torch / ONNX Runtime", times["torch"], times["ONNX Runtime"], photos=PHOTOS
            ),
            ratio("LRP of lite0: batch norms as they are / folded", times["LRP"], times["LRP, folded"], photos=PHOTOS),
        ]
    )


def gradient(masks: Tensor, values: Tensor) -> Tensor:
    """The gradient of the sum of masks with respect to the values."""
    return torch.autograd.grad(masks.sum(), values)[0]


if __name__ == "__main__":
    main()
