"""A classifier that knows four textures, and noisy pictures with a patch of one of them, at a place that is known."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from casmap.baselines import TrainingData
from casmap.models.class_activation import last_features
from casmap.models.classifier import Classifier
from casmap.models.files import save_classifier

SIDE, PATCH = 64, 24
CHANCE = (PATCH / SIDE) ** 2


@dataclass(frozen=True)
class Planted:
    """A trained classifier; pictures (N, 3, 64, 64), their classes (N,), and where the patches are (N, 64, 64)."""

    classifier: Classifier
    images: Tensor
    classes: Tensor
    inside: Tensor

    def found(self, maps: Tensor) -> float:
        """How sure a map (N, h, w) ranks a pixel of the patch above one that is not: 0.5 is chance, 1 is perfect."""
        full = torch.nn.functional.interpolate(maps[:, None], (SIDE, SIDE), mode="bilinear")[:, 0]
        return float(np.mean([_ranked(m, inside) for m, inside in zip(full, self.inside, strict=False)]))

    def finds(self, method, few: int = 24, **options) -> float:
        """How sure a method finds the patches in the first few pictures; its maps must be maps."""
        maps = method(self.classifier, self.images[:few], self.classes[:few], **options)
        assert maps.shape[0] == few
        assert not maps.requires_grad
        assert torch.isfinite(maps).all()
        return self.found(maps)

    def is_captums(self, method, attribution: type) -> None:
        """The maps of a method are the largest absolute values over the colours of captum's."""
        images, classes = self.images[:3], self.classes[:3]
        wanted = attribution(self.classifier).attribute(images.clone().requires_grad_(True), target=classes)
        found = method(self.classifier, images, classes)
        torch.testing.assert_close(found, wanted.detach().abs().amax(dim=1), rtol=1e-3, atol=1e-5)

    def tells_apart(self, method, two_planted) -> float:
        """How often a map of one of two patches is brighter there than at the other."""
        images, first, second, inside_first, inside_second = two_planted
        right = []
        for asked, own, other in ((first, inside_first, inside_second), (second, inside_second, inside_first)):
            maps = method(self.classifier, images, asked)
            full = torch.nn.functional.interpolate(maps[:, None], images.shape[-2:], mode="bilinear")[:, 0]
            right.append(np.mean([float(m[a].mean() > m[b].mean()) for m, a, b in zip(full, own, other, strict=True)]))
        return float(min(right))


def _ranked(values: Tensor, inside: Tensor) -> float:
    """The area under the ROC curve, ties counted as halves."""
    mine, others = values[inside], values[~inside].sort().values
    below = torch.searchsorted(others, mine.contiguous())
    upto = torch.searchsorted(others, mine.contiguous(), right=True)
    return float((below + upto).double().mean() / 2 / len(others))


def _textures() -> list[np.ndarray]:
    """Each (24, 24), none of which a mirror makes another."""
    down, right = np.sin(1.3 * np.mgrid[:PATCH, :PATCH])
    fine = np.sin(2.4 * np.mgrid[:PATCH, :PATCH]).prod(axis=0)
    return [down, right, 1.4 * down * right, 1.4 * fine]


def _draw(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Noise with a patch of texture: four classes, four textures."""
    rng = np.random.default_rng(seed)
    textures = _textures()
    images = 0.5 * rng.standard_normal((count, 3, SIDE, SIDE))
    classes, inside = rng.integers(0, 4, count), np.zeros((count, SIDE, SIDE), bool)
    for index, kind in enumerate(classes):
        y, x = rng.integers(0, SIDE - PATCH + 1, 2)
        images[index, :, y : y + PATCH, x : x + PATCH] += 1.5 * textures[kind]
        inside[index, y : y + PATCH, x : x + PATCH] = True
    return torch.from_numpy(images).float(), torch.from_numpy(classes), torch.from_numpy(inside)


@pytest.fixture(scope="session")
def draw():
    """Pictures (N, 3, 64, 64), their classes (N,) and where the patches are (N, 64, 64), by count and seed."""
    return _draw


@pytest.fixture(scope="session")
def planted() -> Planted:
    torch.manual_seed(0)
    classifier = Classifier("test_resnet", 4).train()
    optimizer = torch.optim.AdamW(classifier.parameters(), 3e-3)
    for step in range(150):
        images, classes, _ = _draw(32, 1000 + step)
        optimizer.zero_grad()
        cross_entropy(classifier(images), classes).backward()
        optimizer.step()
    classifier.eval().requires_grad_(False)
    images, classes, inside = _draw(24, 7)
    with torch.no_grad():
        assert (classifier(images).argmax(dim=1) == classes).float().mean() > 0.9
    return Planted(classifier, images, classes, inside)


@pytest.fixture(scope="session")
def two_planted():
    """Twelve pictures of two patches, left and right: images, both classes, and where both are."""
    rng = np.random.default_rng(11)
    images = 0.5 * rng.standard_normal((12, 3, SIDE, SIDE))
    first = rng.integers(0, 4, 12)
    second = (first + rng.integers(1, 4, 12)) % 4
    places = np.zeros((2, 12, SIDE, SIDE), bool)
    for index in range(12):
        for side, kind in enumerate((first[index], second[index])):
            y, x = rng.integers(0, SIDE - PATCH + 1), rng.integers(0, SIDE // 2 - PATCH + 1) + side * SIDE // 2
            images[index, :, y : y + PATCH, x : x + PATCH] += 1.5 * _textures()[kind]
            places[side, index, y : y + PATCH, x : x + PATCH] = True
    return (torch.from_numpy(images).float(), *map(torch.from_numpy, (first, second, *places)))


class Listened(nn.Module):
    """A classifier whose last features pass a layer by which torch-cam can be told of them."""

    def __init__(self, classifier) -> None:
        super().__init__()
        self.classifier, self.layer = classifier, nn.Identity()

    def forward(self, images):
        features = self.layer(last_features(self.classifier, images)[0])
        return self.classifier.network.fc(features.mean(dim=(2, 3)))


@pytest.fixture(scope="session")
def listened():
    """What makes a classifier one that torch-cam can listen to."""
    return Listened


class Small(nn.Module):
    """Three colours, a few features, one logit."""

    def __init__(self, features, head) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, len(features), 1, bias=False)
        self.relu, self.head = nn.ReLU(), nn.Linear(len(features), 1, bias=False)
        with torch.no_grad():
            self.convolution.weight.copy_(torch.tensor(features).view(-1, 3, 1, 1))
            self.head.weight.copy_(torch.tensor(head))

    def forward(self, images):
        return self.head(self.relu(self.convolution(images)).mean(dim=(2, 3)))


@pytest.fixture(scope="session")
def small_network():
    """What makes a network of one convolution of 1 x 1, by its weights and those of its head."""
    return Small


class PlantedPhotos:
    """Planted pictures as photos: (H, W, 3) uint8, of four classes."""

    def __init__(self, planted, draw, count: int = 64, seed: int = 50) -> None:
        f = planted.classifier
        images, labels, self.inside = draw(count, seed)
        mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in (f.mean, f.std))
        self.pictures = ((images * std + mean) * 255).clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
        self.labels, self.classes = labels.numpy(), ["a", "b", "c", "d"]
        self.names = [f"{self.classes[label]}/{i}.png" for i, label in enumerate(self.labels)]

    def __len__(self) -> int:
        return len(self.pictures)

    def image(self, index: int, least=None) -> np.ndarray:
        return self.pictures[index]

    def annotation(self, index: int) -> None:
        return None


@pytest.fixture(scope="session")
def photos(planted, draw) -> PlantedPhotos:
    return PlantedPhotos(planted, draw)


@pytest.fixture
def training_data(planted, photos, tmp_path):
    """All that a baseline may learn from: planted pictures with classes and boxes."""
    file = tmp_path / "classifier.safetensors"
    save_classifier(file, planted.classifier, photos.classes, {"origin": "Planted."})
    places = (np.nonzero(mask) for mask in photos.inside.numpy())
    boxes = np.array([[c.min(), r.min(), c.max() + 1, r.max() + 1] for r, c in places], np.float64)
    return TrainingData(planted.classifier, file, photos, photos.pictures, boxes, tmp_path)
