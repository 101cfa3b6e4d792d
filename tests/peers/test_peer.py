"""A method that explains a classifier, as a system to be measured: which class it explains, and the masks it gives."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.model.classifier import Classifier
from casmap.peers.cam import cam
from casmap.peers.grad_cam import grad_cam
from casmap.peers.peer import Explained, unit

# Whole numbers of 64ths: a difference of two is 0 or no less than that.
MAPS = arrays(np.float32, (3, 2, 4), elements=st.integers(-64000, 64000).map(lambda value: value / 64))


class Recording:
    """A peer that keeps what it was asked and marks, for class c, the c-th column of a 2 x 4 map."""

    def __call__(self, classifier, images, classes):
        self.classifier, self.images, self.classes = classifier, images, classes
        maps = torch.full((len(images), 2, 4), -5.0)
        maps[range(len(images)), :, classes] = 3.0
        return maps


def build() -> Classifier:
    torch.manual_seed(0)
    return Classifier("test_resnet", 4)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    """The bias is such that the pictures below are not all of one class."""
    f = build()
    with torch.no_grad():
        logits = f.eval()(normalised(f, pictures(8)))
        f.network.get_classifier().bias -= logits.mean(dim=0)
    return f


def pictures(count: int, height: int = 64, width: int = 64) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def normalised(classifier: Classifier, photos: np.ndarray) -> torch.Tensor:
    """By hand, channel by channel."""
    images = torch.zeros(len(photos), 3, *photos.shape[1:3])
    for channel in range(3):
        plane = torch.tensor(photos[..., channel].astype(np.float64) / 255)
        images[:, channel] = (plane - classifier.mean[channel]) / classifier.std[channel]
    return images


def others(seen: np.ndarray) -> np.ndarray:
    """For each picture a class that the classifier does not see."""
    return (seen + 1 + np.arange(len(seen)) % 3) % 4


# ---------------------------------------------------------------------------------------------- unit


def test_unit_by_hand() -> None:
    maps = torch.tensor([[[-1.0, 0.0], [1.0, 3.0]], [[10.0, 20.0], [20.0, 10.0]], [[7.0, 7.0], [7.0, 7.0]]])
    assert unit(maps).tolist() == [[[0, 0.25], [0.5, 1]], [[0, 1], [1, 0]], [[0, 0], [0, 0]]]


@given(MAPS)
def test_unit_goes_from_0_to_1_and_keeps_the_order(maps: np.ndarray) -> None:
    before = maps.copy()
    stretched = unit(torch.from_numpy(maps)).numpy()
    np.testing.assert_array_equal(maps, before)
    assert stretched.shape == maps.shape
    for old, new in zip(maps, stretched, strict=True):
        assert new.min() == 0
        assert new.max() == pytest.approx(1 if old.max() > old.min() else 0)
        assert (np.diff(new.flatten()[old.flatten().argsort()]) >= 0).all()


@given(MAPS.map(np.round), st.integers(1, 50), st.integers(-50, 50))
def test_scale_and_level_of_a_map_mean_nothing(maps: np.ndarray, scale: int, level: int) -> None:
    plain = torch.from_numpy(maps)
    torch.testing.assert_close(unit(plain * scale + level), unit(plain), rtol=0, atol=1e-5)


# ---------------------------------------------------------------------------------------------- which class


def test_the_class_that_is_seen_is_the_one_of_the_highest_logit(classifier: Classifier) -> None:
    photos = pictures(8)
    with torch.no_grad():
        expected = classifier(normalised(classifier, photos)).numpy().argmax(axis=1)
    assert len(set(expected.tolist())) > 1  # or any constant would do
    for asks in (True, False):
        _, seen = Explained(classifier, Recording(), asks)(photos, others(expected))
        assert seen.dtype == np.int64
        assert seen.tolist() == expected.tolist()


def test_it_explains_the_true_class_where_it_asks_and_the_predicted_one_where_not(classifier: Classifier) -> None:
    photos, peer = pictures(8), Recording()
    _, seen = Explained(classifier, peer, asks_class=False)(photos, np.zeros(8, np.int64))
    labels = others(seen)
    masks, _ = Explained(classifier, peer, asks_class=True)(photos, labels)
    assert peer.classes.tolist() == labels.tolist()
    assert (masks.mean(axis=1).argmax(axis=1) // 16).tolist() == labels.tolist()  # 64 pixels for 4 columns
    masks, _ = Explained(classifier, peer, asks_class=False)(photos, labels)
    assert peer.classes.tolist() == seen.tolist()
    assert (masks.mean(axis=1).argmax(axis=1) // 16).tolist() == seen.tolist()


def test_the_peer_is_given_the_classifier_and_pictures_as_it_knows_them(classifier: Classifier) -> None:
    photos, peer = pictures(2, 40, 48), Recording()
    before = photos.copy()
    Explained(classifier, peer, asks_class=True)(photos, np.array([0, 1]))
    assert peer.classifier is classifier
    torch.testing.assert_close(peer.images, normalised(classifier, photos), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(photos, before)


def test_a_classifier_that_was_being_trained_no_longer_is() -> None:
    """Batch norms would else look at the other pictures of the batch."""
    photos, f = pictures(4), build().train()
    told = Explained(f, cam, asks_class=True)
    assert not f.training
    together, seen = told(photos, np.array([0, 1, 2, 3]))
    for i in range(4):
        alone, sees = told(photos[i : i + 1], np.array([i]))
        np.testing.assert_allclose(alone[0], together[i], atol=1e-3)
        assert sees[0] == seen[i]


# ---------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("peer", [cam, grad_cam])
@pytest.mark.parametrize(("height", "width"), [(64, 64), (96, 64), (70, 101)])
def test_masks_are_between_0_and_1_and_of_the_pictures_size(classifier: Classifier, peer, height, width) -> None:
    photos = pictures(3, height, width)
    masks, _ = Explained(classifier, peer, asks_class=True)(photos, np.array([0, 1, 2]))
    assert masks.dtype == np.float32
    assert masks.shape == (3, height, width)
    assert masks.min() >= 0
    assert masks.max() <= 1
    with torch.no_grad():
        maps = peer(classifier, normalised(classifier, photos), torch.tensor([0, 1, 2])).numpy()
    for mask, coarse in zip(masks, maps, strict=True):
        flat = coarse.max() == coarse.min()  # a Grad-CAM in which nothing speaks for the class
        assert (mask.max() == 0) if flat else (mask.max() > 0.9)
    assert masks.max() > 0.9


@settings(max_examples=30)
@given(MAPS, st.sampled_from([(64, 64), (33, 50)]))
def test_whatever_a_peer_says_masks_are_between_0_and_1(
    classifier: Classifier, maps: np.ndarray, shape: tuple[int, int]
) -> None:
    told = Explained(classifier, lambda *_: torch.from_numpy(maps), asks_class=True)
    masks, _ = told(pictures(3, *shape), np.array([0, 1, 2]))
    assert masks.shape == (3, *shape)
    assert masks.min() >= 0
    assert masks.max() <= 1 + 1e-6  # bilinear weights are rounded


def test_a_mask_is_its_map_enlarged_by_straight_lines(classifier: Classifier) -> None:
    """2 x 4 positions to 64 x 64 pixels: each centre of a position lies between two pixels that are nearly it."""
    photos = pictures(1)
    masks, _ = Explained(classifier, Recording(), asks_class=True)(photos, np.array([1]))
    across = masks[0, 0]
    np.testing.assert_allclose(masks[0], np.broadcast_to(across, (64, 64)), atol=1e-6)
    # 16 pixels for a position, so from the centre of position 0, at 8, to that of position 1, at 24: steps of 1/16.
    np.testing.assert_allclose(across[:8], 0, atol=1e-6)
    np.testing.assert_allclose(across[8:24], (np.arange(16) + 0.5) / 16, atol=1e-6)
    np.testing.assert_allclose(across[24:40], 1 - (np.arange(16) + 0.5) / 16, atol=1e-6)
    np.testing.assert_allclose(across[40:], 0, atol=1e-6)
