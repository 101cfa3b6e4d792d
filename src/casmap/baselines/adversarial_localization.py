"""Fan et al. 2017, "Adversarial Localization Network": a localizer against a classifier, on superpixels.

    max over m of  L(f((1 - m) x), y) - lambda_R |m|,    min over f of  L(f((1 - m) x), y) + L(f(x), y)

Like Algorithm 1, but the localizer maximises the classification loss, has its own encoder, and its only opponent is the
current classifier. Its mask is constant on superpixels (SLIC of scikit-image, about 200): the mean over each. It does
not use the class. Fan et al. adapt lambda_R during training, which only a short version of their paper describes; here
it is adjusted to reach an area, as for CASM. With few photos, a classifier that is trained only on masked images
forgets whole ones, and an encoder with CASM's learning rate ends with empty masks (experiment 31): so the classifier is
trained on both, and the rate is lower. Photos, crops, steps and batch are those of CASM's first stage.
"""

import numpy as np
import torch
from skimage.segmentation import slic
from torch import Tensor
from torch.nn.functional import interpolate

from casmap.baselines import BASELINES, Baseline, TrainingData
from casmap.models.class_activation import min_max
from casmap.models.classifier import Classifier
from casmap.models.decoder import Mapping
from casmap.models.files import load_mapping
from casmap.models.network import SaliencyNetwork
from casmap.training.loop import train_mapping
from casmap.training.recipes import PHOTOS
from casmap.training.run import Run

SEGMENTS = 200
RECIPE = PHOTOS.replace(
    score="loss", encoder="separate", thinning="L", masked_in=0.0, mapping_lr=3e-4, size=PHOTOS.algorithm_size,
    second_stage_steps=0, algorithm_size=None,
)  # fmt: skip


class SuperpixelMapping(Mapping):
    """A mapping whose masks are constant on the superpixels of the image."""

    def forward(self, images: Tensor, stages: list[Tensor]) -> Tensor:  # type: ignore[override]
        """Masks (N, 1, H, W) of images (N, 3, H, W)."""
        return _averaged(super().forward(images, stages), segments(images))


class AdversarialLocalization:
    """The trained localizer as a baseline method."""

    def __init__(self, network: SaliencyNetwork, size: int) -> None:
        self.network, self.size = network.eval(), size

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Images (N, 3, H, W) -> maps (N, h, w) at its own size; classifier and classes (N,) are not used."""
        images = interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        with torch.no_grad():
            return _averaged(self.network(images)[0], segments(images))[:, 0]


def learn(data: TrainingData) -> AdversarialLocalization:
    """Train it on photos with classes from f(0), a file; resume if the folder holds an unfinished run."""
    assert data.photos is not None
    recipe = RECIPE.replace(backbone=data.classifier.backbone)
    run = Run(data.folder / "adversarial", recipe, resume=True, reporter=data.reporter)
    trained = train_mapping(data.photos, run, str(data.file), SuperpixelMapping)
    network, about = load_mapping(trained.mapping)
    return AdversarialLocalization(network, about["size"])


def segments(images: Tensor) -> Tensor:
    """The superpixel of each pixel: images (N, 3, H, W) of any scale -> numbers (N, H, W) from 0."""
    arrays = min_max(images.flatten(2)).view_as(images).permute(0, 2, 3, 1).cpu().numpy()
    found = [np.asarray(slic(array, SEGMENTS, start_label=0), np.int64) for array in arrays]
    return torch.from_numpy(np.stack(found)).to(images.device)


def _averaged(masks: Tensor, numbers: Tensor) -> Tensor:
    """The mean of masks (N, 1, H, W) over each superpixel, numbered (N, H, W); differentiable."""
    flat, where = masks.flatten(1), numbers.flatten(1)
    empty = flat.new_zeros(len(flat), int(where.max()) + 1)
    sums, counts = (empty.scatter_add(1, where, of) for of in (flat, torch.ones_like(flat)))
    return (sums / counts.clamp_min(1)).gather(1, where).view_as(masks)


BASELINES.register("adversarial-localization")(
    Baseline("adversarial localization", "Fan et al. 2017", paper_le=43.5, uses="nothing", masks=True, learn=learn)
)
