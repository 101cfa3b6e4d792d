"""Real-time saliency finds a planted object after a short training, and its terms are those of its paper."""

import pytest
import torch

from casmap.baselines import real_time_saliency
from casmap.baselines.real_time_saliency import BLUR, composite, learn, roughness, sample_classes
from casmap.baselines.support.blurring import blur


def test_it_finds_a_planted_object_and_is_read_back(planted, training_data, monkeypatch) -> None:
    monkeypatch.setattr(real_time_saliency, "STEPS", 120)
    monkeypatch.setattr(real_time_saliency, "RATE", 3e-3)
    monkeypatch.setattr(real_time_saliency, "CROP", 1.0)  # a texture that is enlarged is another
    maps = learn(training_data)(planted.classifier, planted.images, planted.classes)
    assert planted.found(maps) > 0.9
    monkeypatch.setattr(real_time_saliency, "STEPS", 0)  # nothing is left to be learned
    again = learn(training_data)(planted.classifier, planted.images, planted.classes)
    torch.testing.assert_close(again, maps)


def test_a_share_of_the_classes_asked_for_is_not_there() -> None:
    labels = torch.arange(2000) % 7
    asked, there = sample_classes(labels, 7, 0.3, seed=1)
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
    found = composite(images, blur(images, BLUR), masks, torch.Generator().manual_seed(0))
    kept, rest = ((found - images)[..., place].abs().mean(dim=(1, 2, 3)) for place in (slice(32), slice(32, 64)))
    assert (kept < 0.03).all()  # a little noise
    assert (rest > 0.1).all()
