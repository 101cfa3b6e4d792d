"""Fan et al. 2017, "Adversarial Localization Network": a localizer against a classifier, on superpixels.

    max over m of  L(f((1 - m) x), y) - lambda_R |m|,    min over f of  L(f((1 - m) x), y) + L(f(x), y)

As Algorithm 1, but the localizer raises the classification loss, has an encoder of its own, and has the classifier of
the moment as its only opponent. Its mask is constant on superpixels (SLIC of scikit-image, about 200): the mean over
each. It is not told the class. Fan et al. adapt lambda_R as they go, in a way that only a short version of their paper
tells of; here it is steered to an area, as for CASM. With few photos, a classifier that learns from masked pictures
alone forgets whole ones, and an encoder that learns at CASM's rate marks nothing any more (experiment 31): so the
classifier sees both, and the rate is lower. Photos, crops, steps and batch are those of CASM's first stage.
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
    """A mapping whose masks are constant on the superpixels of the picture."""

    def forward(self, images: Tensor, stages: list[Tensor]) -> Tensor:  # type: ignore[override]
        """Masks (N, 1, H, W) of images (N, 3, H, W)."""
        return averaged(super().forward(images, stages), segments(images))


class AdversarialLocalization:
    """The trained localizer as a method."""

    def __init__(self, network: SaliencyNetwork, size: int) -> None:
        self.network, self.size = network.eval(), size

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Images (N, 3, H, W); classifier and classes (N,) are not asked -> maps (N, h, w), at its own size."""
        images = interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        with torch.no_grad():
            return averaged(self.network(images)[0], segments(images))[:, 0]


def learn(data: TrainingData) -> AdversarialLocalization:
    """Train it on photos with classes from f(0), a file; in a folder that holds a begun run it goes on with that."""
    assert data.photos is not None
    recipe = RECIPE.replace(backbone=data.classifier.backbone)
    run = Run(data.folder / "adversarial", recipe, resume=True, reporter=data.reporter)
    trained = train_mapping(data.photos, recipe, run, str(data.file), SuperpixelMapping)
    network, about = load_mapping(trained.mapping)
    return AdversarialLocalization(network, about["size"])


def segments(images: Tensor) -> Tensor:
    """Which superpixel each pixel belongs to: images (N, 3, H, W) of any scale -> numbers (N, H, W) from 0 on."""
    pictures = min_max(images.flatten(2)).view_as(images).permute(0, 2, 3, 1).cpu().numpy()
    found = [np.asarray(slic(picture, SEGMENTS, start_label=0), np.int64) for picture in pictures]
    return torch.from_numpy(np.stack(found)).to(images.device)


def averaged(masks: Tensor, numbers: Tensor) -> Tensor:
    """The mean of masks (N, 1, H, W) over each superpixel, numbered (N, H, W); gradients pass.

    >>> masks = torch.tensor([[[[0.0, 1.0, 0.5, 0.5]]]])
    >>> averaged(masks, torch.tensor([[[0, 0, 1, 1]]])).flatten().tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    flat, where = masks.flatten(1), numbers.flatten(1)
    empty = flat.new_zeros(len(flat), int(where.max()) + 1)
    sums, counts = (empty.scatter_add(1, where, of) for of in (flat, torch.ones_like(flat)))
    return (sums / counts.clamp_min(1)).gather(1, where).view_as(masks)


BASELINES.register("adversarial-localization")(
    Baseline("adversarial localization", "Fan et al. 2017", paper_le=43.5, told="nothing", masks=True, learn=learn)
)
