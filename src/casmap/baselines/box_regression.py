"""Simonyan & Zisserman 2014, "Very Deep Convolutional Networks": boxes by regression, the upper bound.

    min over g of  1 - IoU(g(x), b),    b: centre, width and height of the box, as shares of the image

g: the classifier's last feature maps, one more layer and four outputs, the same for all classes (the paper's single-
class regression); it is initialised to the mean box. The classifier is not trained, as in the paper's first experiment.
The paper minimises |g(x) - b|^2 over a million boxes; with a few hundred that overfits, and is worse on other photos
than the box of the whole photo (experiment 42). It is the only baseline that is trained on boxes.
"""

import torch
from torch import Tensor, nn
from torchvision.ops import box_convert

from casmap.baselines import BASELINES, Baseline, TrainingData
from casmap.data.batches import normalised
from casmap.models.class_activation import last_features
from casmap.models.classifier import Classifier

HIDDEN = 64
STEPS, BATCH = 300, 64
RATE, DECAY = 1e-4, 1e-2


class BoxRegression:
    """A box regression fitted to images with boxes; its maps are 1 in the box and 0 elsewhere."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval()

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Images (N, 3, H, W) -> maps (N, H, W); the classes (N,) are not used."""
        with torch.no_grad():
            boxes = self.network(last_features(classifier, images)[0])
        return filled(boxes, images.shape[-2], images.shape[-1])


def learn(data: TrainingData) -> BoxRegression:
    """Fit to images (n, S, S, 3) with boxes (n, 4), x0, y0, x1, y1 in pixels, and to their mirror images."""
    f = data.classifier
    images = normalised(data.images, f.mean, f.std)
    targets = box_convert(torch.from_numpy(data.boxes) / images.shape[-1], "xyxy", "cxcywh").float()
    with torch.no_grad():
        batches = [*torch.split(images, BATCH), *torch.split(images.flip(-1), BATCH)]
        found = torch.cat([last_features(f, batch)[0] for batch in batches])
    return _fit_boxes(found, torch.cat([targets, torch.cat([1 - targets[:, :1], targets[:, 1:]], dim=1)]))


def _fit_boxes(features: Tensor, boxes: Tensor, seed: int = 0) -> BoxRegression:
    """Fit to feature maps (n, K, h, w), of images and their mirror images, and boxes (n, 4) as shares."""
    torch.manual_seed(seed)
    count, channels, height, width = features.shape
    network = nn.Sequential(
        nn.Conv2d(channels, HIDDEN, 1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(HIDDEN * height * width, 4)
    )
    last = network[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    with torch.no_grad():
        last.bias.copy_(boxes.mean(dim=0))
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    with torch.enable_grad():
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
            chosen = torch.randint(count, (min(BATCH, count),))
            loss = (1 - overlap(network(features[chosen]), boxes[chosen])).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return BoxRegression(network)


def overlap(found: Tensor, boxes: Tensor) -> Tensor:
    """IoU of boxes as shares, (n, 4) and (n, 4) -> (n,); of `found` only the part inside the image counts.

    >>> overlap(torch.tensor([[0.5, 0.5, 1.0, 1.0]]), torch.tensor([[0.25, 0.5, 0.5, 1.0]]))
    tensor([0.5000])
    """
    a, b = box_convert(found, "cxcywh", "xyxy").clamp(0, 1), box_convert(boxes, "cxcywh", "xyxy")
    sides = torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])
    both = sides.clamp_min(0).prod(dim=1)
    either = sum((c[:, 2:] - c[:, :2]).clamp_min(0).prod(dim=1) for c in (a, b)) - both
    overlaps: Tensor = both / either
    return overlaps


def filled(boxes: Tensor, height: int, width: int) -> Tensor:
    """Boxes (N, 4) as shares -> maps (N, H, W) that are 1 inside the box.

    >>> filled(torch.tensor([[0.25, 0.5, 0.5, 1.0]]), 1, 4).tolist()
    [[[1.0, 1.0, 0.0, 0.0]]]
    """
    x, y, w, h = (column[:, None, None] for column in boxes.T)
    down = ((torch.arange(height) + 0.5) / height)[None, :, None]
    right = ((torch.arange(width) + 0.5) / width)[None, None, :]
    inside: Tensor = ((right - x).abs() <= w / 2) & ((down - y).abs() <= h / 2)
    return inside.float()


BASELINES.register("box-regression")(
    Baseline("box regression", "Simonyan & Zisserman 2014", paper_le=34.3, uses="boxes", masks=True, learn=learn)
)
