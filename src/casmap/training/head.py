"""The head of f(0): the best linear layer on the features of a fixed backbone."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from casmap.data.batches import normalised, whole_photos
from casmap.data.photos import PhotoSet, ranks_in_class
from casmap.models.classifier import Classifier, to_device
from casmap.reporting import SILENT, Reporter

Indices = npt.NDArray[np.int64]

L2 = 0.02
HEAD_PHOTOS = 10_000  # maximum number of photos that the head is fitted to
BATCH, ITERATIONS = 32, 100  # photos in a forward pass; iterations of L-BFGS
FIFTH = 5  # the accuracy is measured on one photo in this many


def has_linear_head(classifier: Classifier) -> bool:
    """Whether a backbone ends in one linear layer.

    >>> has_linear_head(Classifier("test_resnet", 2)), has_linear_head(Classifier("torchvision/mobilenet_v2", 2))
    (True, False)
    """
    if classifier.stage_indices is None or not isinstance(head := classifier.network.get_classifier(), nn.Linear):
        return False
    image = torch.zeros(1, 3, classifier.side, classifier.side, device=head.weight.device)
    with torch.no_grad():
        logits, _, last = classifier.eval().forward_features(image)
        inputs = classifier.network.forward_head(last, pre_logits=True)
        return inputs.shape[1:] == (head.in_features,) and torch.allclose(head(inputs), logits, rtol=1e-3, atol=1e-3)


@dataclass(frozen=True)
class HeadInputs:
    """What enters the head: z (n, K) of n whole photos, divided by `scale`, so that its deviation is 1; labels (n,).

    photos: the indices of the n photos. held_out: whether each belongs to the fifth on which a head is measured (n,).
    """

    photos: Indices
    features: Tensor
    labels: Tensor
    held_out: npt.NDArray[np.bool_]
    scale: float

    def fit(self, classifier: Classifier, *, everything: bool = True) -> float | None:
        """Set the classifier's head to the best one; returns the accuracy of one fitted without the held-out fifth.

        everything: fit to all photos; if not, the head is the one that was measured. None if nothing is held out.

            min over W, b of  CE(W z + b, y) + L2 / 2 |W|^2

        Training a random head would damage a pretrained backbone: docs/experiments.md.
        """
        aside = torch.from_numpy(self.held_out).to(self.labels.device)
        weight, bias = _best_linear(self.features[~aside], self.labels[~aside], classifier.classes)
        correct = (self.features[aside] @ weight.T + bias).argmax(dim=1) == self.labels[aside]
        if everything:
            weight, bias = _best_linear(self.features, self.labels, classifier.classes)
        head = classifier.network.get_classifier()
        with torch.no_grad():
            head.weight.copy_(weight / self.scale)
            head.bias.copy_(bias)
        return float(correct.float().mean()) if self.held_out.any() else None


def head_inputs(
    classifier: Classifier, photos: PhotoSet, size: int, device: torch.device, reporter: Reporter = SILENT,
    label: str = "Fitting the head of f(0) on photos",
) -> HeadInputs:  # fmt: skip
    """The inputs of the head for at most 10,000 photos; one in five of each class is held out. label: of the bar."""
    chosen, ranks = _balanced_sample(photos.labels, HEAD_PHOTOS)
    to_device(classifier, device).eval()
    computed = []
    with torch.no_grad(), reporter.progress(label, len(chosen), lasting=True) as advance:
        for _, (arrays,) in whole_photos(photos, chosen, (size,), BATCH):
            images = normalised(arrays, classifier.mean, classifier.std).to(device)
            *_, last = classifier.forward_features(images)
            computed.append(classifier.network.forward_head(last, pre_logits=True))
            advance(len(arrays))
    features = torch.cat(computed)
    scale = float(features.std().clamp_min(1e-6))
    labels = torch.from_numpy(photos.labels[chosen]).to(device)
    return HeadInputs(chosen, features / scale, labels, ranks % FIFTH == FIFTH - 1, scale)


def held_out_fifth(labels: Indices) -> Indices:
    """The photos that `head_inputs` holds out: indices, ascending.

    >>> held_out_fifth(np.array([0] * 10 + [1] * 4))
    array([4, 9])
    """
    chosen, ranks = _balanced_sample(labels, HEAD_PHOTOS)
    return np.asarray(chosen[ranks % FIFTH == FIFTH - 1])


@torch.no_grad()
def accuracy_on(classifier: Classifier, photos: PhotoSet, chosen: Indices, size: int, device: torch.device) -> float:
    """The share of the chosen photos, whole and resized to `size`, that the classifier gets right."""
    correct = []
    for labels, (arrays,) in whole_photos(photos, chosen, (size,), BATCH):
        logits = classifier.eval()(normalised(arrays, classifier.mean, classifier.std).to(device))
        correct.append(logits.argmax(dim=1).cpu() == labels)
    return float(torch.cat(correct).float().mean())


def _balanced_sample(labels: Indices, most: int) -> tuple[Indices, Indices]:
    """Choose at most `most` photos: the first of each class, then the second, and so on.

    Returns the indices of the photos, ascending, and the rank of each within its class.
    """
    ranks = ranks_in_class(labels)
    chosen = np.sort(np.lexsort((labels, ranks))[:most])
    return chosen, ranks[chosen]


def _best_linear(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """W (classes, K) and b (classes,) of the logistic regression of labels (n,) on features (n, K)."""
    weight = torch.zeros(classes, features.shape[1], device=features.device, requires_grad=True)
    bias = torch.zeros(classes, device=features.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = cross_entropy(features @ weight.T + bias, labels) + L2 / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
