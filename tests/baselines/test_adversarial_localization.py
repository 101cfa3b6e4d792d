"""The adversarial localizer finds a planted object after a short training; its superpixels by hand."""

import torch

from casmap.baselines import adversarial_localization
from casmap.baselines.adversarial_localization import _averaged, learn, segments


def test_it_finds_a_planted_object(planted, training_data, monkeypatch) -> None:
    recipe = adversarial_localization.RECIPE.replace(
        size=64, steps=60, area=0.25, smallest_crop=1.0, device="cpu", classifier_lr=1e-3
    )
    monkeypatch.setattr(adversarial_localization, "RECIPE", recipe)
    maps = learn(training_data)(planted.classifier, planted.images, planted.classes)
    assert planted.found(maps) > 0.7
    for found, numbers in zip(maps, segments(planted.images), strict=True):  # constant on superpixels
        assert all(found[numbers == number].std() < 1e-5 for number in numbers.unique().tolist())


def test_an_average_over_superpixels_keeps_the_mean_and_passes_gradients() -> None:
    masks = torch.rand(2, 1, 32, 32, requires_grad=True)
    numbers = segments(torch.rand(2, 3, 32, 32))
    found = _averaged(masks, numbers)
    torch.testing.assert_close(found.mean(dim=(2, 3)), masks.mean(dim=(2, 3)))
    (back,) = torch.autograd.grad(found[0, 0, 5, 5], masks)
    own = numbers[0] == numbers[0, 5, 5]
    torch.testing.assert_close(back[0, 0][own], torch.full((int(own.sum()),), 1 / float(own.sum())))
    assert not back[0, 0][~own].any()
