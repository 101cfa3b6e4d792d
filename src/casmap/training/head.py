"""A new head for a pretrained backbone: the best linear one on what the backbone already sees.

min over W, b of  CE(W z + b, y) + L2 / 2 |W|^2    z: features of whole photos, before the head, their deviation 1

A random head would spoil a pretrained backbone while it learns: docs/experiments.md.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from casmap.data.batches import normalised, whole_photos
from casmap.data.photos import PhotoSet
from casmap.models.classifier import Classifier
from casmap.models.device import place
from casmap.training.run import Run

L2 = 0.02
ENOUGH = 10_000  # photos for a linear head
BATCH = 32
ROUNDS = 100  # of L-BFGS


def has_linear_head(classifier: Classifier) -> bool:
    """Whether a backbone ends in one linear layer.

    >>> has_linear_head(Classifier("test_resnet", 2)), has_linear_head(Classifier("torchvision/mobilenet_v2", 2))
    (True, False)
    """
    if classifier.stage_indices is None or not isinstance(head := classifier.network.get_classifier(), nn.Linear):
        return False
    picture = torch.zeros(1, 3, classifier.side, classifier.side, device=head.weight.device)
    with torch.no_grad():
        logits, _, last = classifier.eval().look_inside(picture)
        seen = classifier.network.forward_head(last, pre_logits=True)
        return seen.shape[1:] == (head.in_features,) and torch.allclose(head(seen), logits, rtol=1e-3, atol=1e-3)


def fit_head(classifier: Classifier, photos: PhotoSet, size: int, run: Run) -> float | None:
    """Give the classifier the best linear head; returns the share that one fitted without a fifth gets right of it.

    None where no class has five photos, so that none can be held out.
    """
    chosen, ranks = some_of_each(photos.labels, ENOUGH)
    labels = torch.from_numpy(photos.labels[chosen]).to(run.device)
    place(classifier, run.device).eval()
    seen = []
    with torch.no_grad(), run.reporter.progress("f(0), its head", -(-len(chosen) // BATCH), lasting=True) as advance:
        for _, (pictures,) in whole_photos(photos, chosen, (size,), BATCH):
            images = normalised(pictures, classifier.mean, classifier.std).to(run.device)
            *_, last = classifier.look_inside(images)
            seen.append(classifier.network.forward_head(last, pre_logits=True))
            advance()
    features = torch.cat(seen)
    scale = features.std().clamp_min(1e-6)
    features /= scale
    tested = torch.from_numpy(ranks % 5 == 4).to(run.device)
    weight, bias = best_linear(features[~tested], labels[~tested], classifier.classes)
    right = (features[tested] @ weight.T + bias).argmax(dim=1) == labels[tested]
    weight, bias = best_linear(features, labels, classifier.classes)
    head = classifier.network.get_classifier()
    with torch.no_grad():
        head.weight.copy_(weight / scale)
        head.bias.copy_(bias)
    return float(right.float().mean()) if tested.any() else None


def some_of_each(labels: npt.NDArray[np.int64], most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of photos, rising: the first of each class, the second, and so on, `most` in all; and which of its class.

    >>> some_of_each(np.array([0, 0, 0, 1]), 3)
    (array([0, 1, 3]), array([0, 1, 0]))
    """
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    ranks = np.empty_like(labels)
    ranks[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.sort(np.lexsort((labels, ranks))[:most])
    return chosen, ranks[chosen]


def best_linear(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """W (classes, K) and b (classes,) of the logistic regression of labels (n,) on features (n, K).

    >>> weight, bias = best_linear(torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]), 2)
    >>> weight.shape, bool(weight[1] > weight[0])
    (torch.Size([2, 1]), True)
    """
    weight = torch.zeros(classes, features.shape[1], device=features.device, requires_grad=True)
    bias = torch.zeros(classes, device=features.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = cross_entropy(features @ weight.T + bias, labels) + L2 / 2 * weight.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
