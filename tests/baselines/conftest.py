"""A classifier that knows four textures, and noisy pictures with a patch of one of them, at a place that is known."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from casmap.models.classifier import Classifier

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
