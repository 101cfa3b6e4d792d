"""Masks grown from their seeds: the formula against values worked out by hand and against another solver."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data.scenes import Scenes
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.training.growing import BACKGROUND, GRID, HIGHEST, LAMBDA, OBJECT, grow, pixel_features
from casmap.training.pseudo_masks import PseudoMasks
from casmap.training.recipes import QUICK
from casmap.training.run import Run

SIDE = 8 * GRID  # a stage of GRID x GRID values then has stride 8, and nothing is interpolated


def halves() -> tuple[torch.Tensor, torch.Tensor]:
    """Features of 1 in the left half and -1 in the right half; a mask that is sure only of the outer quarters."""
    features, mask = torch.ones(1, 1, GRID, GRID), torch.full((1, GRID, GRID), 0.5)
    features[..., GRID // 2 :] = -1
    mask[..., : GRID // 4], mask[..., -GRID // 4 :] = 1, 0
    return features, mask


def test_the_rest_of_each_half_follows_its_seeds() -> None:
    """By hand: the covariance is 1, so w = ½ / (1 + λ), and the mask is ½ ± w."""
    features, mask = halves()
    grown = grow(mask, [features], SIDE)[0]
    assert grown[:, : GRID // 2].numpy() == pytest.approx(0.5 + 0.5 / (1 + LAMBDA))
    assert grown[:, GRID // 2 :].numpy() == pytest.approx(0.5 - 0.5 / (1 + LAMBDA))


def test_few_seeds_of_one_kind_weigh_as_much_as_many_of_the_other() -> None:
    features, mask = halves()
    few = mask.clone()
    few[:, 4:, : GRID // 4] = 0.5
    assert torch.allclose(grow(few, [features], SIDE), grow(mask, [features], SIDE), atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_a_mask_without_seeds_of_both_kinds_stays(value) -> None:
    features, mask = halves()
    both = torch.cat([torch.full_like(mask, value), mask])
    grown = grow(both, [features.expand(2, -1, -1, -1)], SIDE)
    assert torch.allclose(grown[0], both[0])
    assert torch.allclose(grown[1], grow(mask, [features], SIDE)[0], atol=1e-6)  # and its neighbour does not notice


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), channels=st.integers(1, 6), scale=st.floats(0.01, 100))
def test_the_classifier_is_the_solution_of_weighted_least_squares(seed, channels, scale) -> None:
    """numpy's lstsq, with λ as further rows, on the pixels that are seeds; the scale of the features has no effect."""
    rng = torch.Generator().manual_seed(seed)
    features = torch.randn(1, channels, GRID, GRID, generator=rng, dtype=torch.float64)
    mask = torch.rand(1, GRID, GRID, generator=rng, dtype=torch.float64)
    phi = pixel_features([features], SIDE)[0].numpy()
    values = mask.flatten().numpy()
    high = np.quantile(values, HIGHEST)
    kinds = (values >= OBJECT * high, values <= BACKGROUND * high)
    phi = phi - (phi[kinds[0]].mean(axis=0) + phi[kinds[1]].mean(axis=0)) / 2
    rows, targets = [np.sqrt(LAMBDA) * np.eye(channels)], [np.zeros(channels)]
    for kind, target in zip(kinds, (0.5, -0.5), strict=True):
        weight = np.sqrt(0.5 / kind.sum())
        rows.append(weight * phi[kind])
        targets.append(np.full(kind.sum(), weight * target))
    w = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    expected = np.clip(0.5 + phi @ w, 0, 1).reshape(GRID, GRID)
    assert grow(mask, [scale * features], SIDE)[0].numpy() == pytest.approx(expected, abs=1e-6)


def test_stages_of_other_strides_are_left_out() -> None:
    stages = [torch.rand(1, channels, side, side) for channels, side in ((2, 96), (3, 48), (5, 24), (7, 12))]
    assert pixel_features(stages, SIDE).shape[2] == 3 + 5
    assert pixel_features(stages[3:], SIDE).shape[2] == 7


def test_a_pseudo_mask_adds_the_half_of_the_object_that_the_teacher_misses(tmp_path) -> None:
    class Bars(Scenes):
        def image(self, index: int, least=None) -> np.ndarray:
            image = np.full((96, 96, 3), 40, np.uint8)
            image[32:64, 8:88] = (230, 120, 60)
            return image

    class LeftHalf:
        mean, std, predicts, classes, concurrent = (0.5,) * 3, (0.5,) * 3, False, ["a"], False

        def run(self, images):
            side = images.shape[-1]
            masks = np.full((len(images), side, side), 0.05, np.float32)
            masks[:, side // 3 : side * 2 // 3, side // 12 : side // 2] = 1
            masks[:, side // 3 : side * 2 // 3, side // 2 :] = 0.4
            return masks, np.zeros((len(images), 1), np.float32)

    recipe = QUICK.replace(pseudo_masks="seeds", cam_gate=0, second_stage_steps=1, device="cpu")
    photos, teacher = Bars(classes=4, photos=3, size=64), SaliencyMapper(LeftHalf(), 96)
    torch.manual_seed(0)
    made = PseudoMasks(tmp_path / "masks", np.arange(3)).make(
        photos, Classifier("test_resnet", 4).eval(), teacher, Run(tmp_path, recipe)
    )
    bar = np.zeros((96, 96), bool)
    bar[32:64, 8:88] = True
    before, after = teacher.masks(photos.image(0)[None])[0][0] >= 0.5, made[1] >= 128
    overlaps = [(mask & bar).sum() / (mask | bar).sum() for mask in (before, after)]
    assert overlaps[0] == pytest.approx(0.5)
    assert overlaps[1] > 0.8


def test_the_label_matters_only_with_a_gate(tmp_path) -> None:
    """With a gate, masks change with the labels, and vanish where M_y is 0; without, they do neither."""

    class Whole:
        mean, std, predicts, classes, concurrent = (0.5,) * 3, (0.5,) * 3, False, ["a"], False

        def run(self, images):
            masks = np.ones((len(images), *images.shape[2:]), np.float32)
            return masks, np.zeros((len(images), 1), np.float32)

    photos, others = (Scenes(classes=4, photos=8, size=64) for _ in range(2))
    others.labels = (photos.labels + 1) % 4
    torch.manual_seed(0)
    encoder, teacher = Classifier("test_resnet", 4).eval(), SaliencyMapper(Whole(), 64)
    made = {}
    for gate in (0.0, 0.5):
        recipe = QUICK.replace(pseudo_masks="seeds", cam_gate=gate, second_stage_steps=1, device="cpu")
        for name, some in (("own", photos), ("other", others)):
            folder = tmp_path / f"{name}-{gate}"
            masks = PseudoMasks(folder / "masks", np.arange(8)).make(some, encoder, teacher, Run(folder, recipe))
            made[name, gate] = np.stack([masks[index] for index in range(8)])
    assert np.array_equal(made["own", 0.0], made["other", 0.0])
    assert made["own", 0.0].min() == 255  # a mask of ones has no seeds of the background, and stays
    assert not np.array_equal(made["own", 0.5], made["other", 0.5])
    assert made["own", 0.5].min() == 0
