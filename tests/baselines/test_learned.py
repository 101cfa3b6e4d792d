"""The rivals that learn: each finds a planted object after a short training, and its terms are those of its paper."""

import numpy as np
import pytest
import torch
from rich.console import Console

from casmap.baselines import adversarial, real_time
from casmap.baselines.adversarial import averaged, learn_adversarial, segments
from casmap.baselines.blurring import blur
from casmap.baselines.box_regression import learn_boxes
from casmap.baselines.real_time import BLUR, ask, exchanged, learn_real_time, roughness
from casmap.data.batches import normalised
from casmap.models.files import save_classifier

QUIET = Console(quiet=True)


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


@pytest.fixture(scope="module")
def photos(planted, draw) -> PlantedPhotos:
    return PlantedPhotos(planted, draw)


def test_real_time_saliency_finds_a_planted_object_and_is_read_back(planted, photos, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(real_time, "STEPS", 120)
    monkeypatch.setattr(real_time, "RATE", 3e-3)
    monkeypatch.setattr(real_time, "CROP", 1.0)  # a texture that is enlarged is another
    learned = learn_real_time(photos, planted.classifier, tmp_path / "real-time.safetensors", 64, QUIET)
    maps = learned(planted.classifier, planted.images, planted.classes)
    assert planted.found(maps) > 0.9
    monkeypatch.setattr(real_time, "STEPS", 0)  # nothing is left to be learned
    again = learn_real_time(photos, planted.classifier, tmp_path / "real-time.safetensors", 64, QUIET)
    torch.testing.assert_close(again(planted.classifier, planted.images, planted.classes), maps)


def test_the_adversarial_localizer_finds_a_planted_object(planted, photos, tmp_path, monkeypatch) -> None:
    recipe = adversarial.RECIPE.replace(
        size=64, steps=60, area=0.25, smallest_crop=1.0, device="cpu", classifier_lr=1e-3
    )
    monkeypatch.setattr(adversarial, "RECIPE", recipe)
    file = tmp_path / "classifier.safetensors"
    save_classifier(file, planted.classifier, photos.classes, {"origin": "Planted."})
    learned = learn_adversarial(photos, file, tmp_path / "run", "test_resnet", QUIET)
    maps = learned(planted.classifier, planted.images, planted.classes)
    assert planted.found(maps) > 0.7
    for found, numbers in zip(maps, segments(planted.images), strict=True):  # constant on superpixels
        assert all(found[numbers == number].std() < 1e-5 for number in numbers.unique().tolist())


def test_box_regression_finds_a_planted_object(planted, photos) -> None:
    inside = photos.inside.numpy()
    boxes = np.array([[c.min(), r.min(), c.max() + 1, r.max() + 1] for r, c in (np.nonzero(mask) for mask in inside)])
    f = planted.classifier
    learned = learn_boxes(f, normalised(photos.pictures, f.mean, f.std), boxes.astype(np.float64))
    maps = learned(f, planted.images, planted.classes)
    assert planted.found(maps) > 0.65
    assert set(maps.unique().tolist()) <= {0.0, 1.0}


def test_a_share_of_the_classes_asked_for_is_not_there() -> None:
    labels = torch.arange(2000) % 7
    asked, there = ask(labels, 7, 0.3, seed=1)
    assert torch.equal(asked == labels, there)
    assert 0.27 < 1 - there.float().mean() < 0.33
    assert asked.max() < 7


def test_roughness_by_hand() -> None:
    """A column of ones at the left of 2 x 2: inner differences 2, border left 2, top and bottom 1 each."""
    mask = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
    assert float(roughness(mask)) == pytest.approx((2 + 0.3 * (2 + 1 + 1)) / 2)


def test_what_is_kept_is_the_picture_and_the_rest_is_not() -> None:
    images = torch.rand(4, 3, 64, 64)
    masks = torch.zeros(4, 1, 64, 64)
    masks[..., :32] = 1
    found = exchanged(images, blur(images, BLUR), masks, torch.Generator().manual_seed(0))
    kept, rest = ((found - images)[..., place].abs().mean(dim=(1, 2, 3)) for place in (slice(32), slice(32, 64)))
    assert (kept < 0.03).all()  # a little noise
    assert (rest > 0.1).all()


def test_an_average_over_superpixels_keeps_the_mean_and_passes_gradients() -> None:
    masks = torch.rand(2, 1, 32, 32, requires_grad=True)
    numbers = segments(torch.rand(2, 3, 32, 32))
    found = averaged(masks, numbers)
    torch.testing.assert_close(found.mean(dim=(2, 3)), masks.mean(dim=(2, 3)))
    (back,) = torch.autograd.grad(found[0, 0, 5, 5], masks)
    own = numbers[0] == numbers[0, 5, 5]
    torch.testing.assert_close(back[0, 0][own], torch.full((int(own.sum()),), 1 / float(own.sum())))
    assert not back[0, 0][~own].any()
