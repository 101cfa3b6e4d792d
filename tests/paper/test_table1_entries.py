"""Who enters: which class a baseline is told, in which photos, and the masks that come of its maps."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from casmap.baselines import Baseline
from casmap.baselines.cam import cam
from casmap.data.photos import Annotation
from casmap.models.classifier import Classifier
from casmap.paper import table1_entries
from casmap.paper.crops import Crops
from casmap.paper.table1_entries import BaselineMaps, predict_classes

SIDE = 64
MAPS = arrays(np.float32, (3, 2, 4), elements=st.integers(-64000, 64000).map(lambda value: value / 64))
NONE = np.zeros(8, bool)


class Recording:
    """A method that keeps what it was asked and marks, for class c, the c-th column of a 2 x 4 map."""

    def __init__(self) -> None:
        self.classifier, self.images, self.classes = None, [], []

    def __call__(self, classifier, images, classes):
        self.classifier = classifier
        self.images.append(images)
        self.classes += classes.tolist()
        maps = torch.full((len(images), 2, 4), -5.0)
        maps[range(len(images)), :, classes] = 3.0
        return maps


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)


def normalised(classifier: Classifier, photos: np.ndarray) -> torch.Tensor:
    """By hand, channel by channel."""
    images = torch.zeros(len(photos), 3, *photos.shape[1:3])
    for channel in range(3):
        plane = torch.tensor(photos[..., channel].astype(np.float64) / 255)
        images[:, channel] = (plane - classifier.mean[channel]) / classifier.std[channel]
    return images


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    """The bias is such that the pictures are not all of one class."""
    torch.manual_seed(0)
    f = Classifier("test_resnet", 4).eval().requires_grad_(False)
    logits = f(normalised(f, pictures(8)))
    f.network.get_classifier().bias -= logits.mean(dim=0)
    return f


@pytest.fixture(scope="module")
def crops(classifier) -> Crops:
    """Eight pictures, none of the class that is seen in it but the first two."""
    seen = predict_classes(classifier, pictures(8))
    labels = (seen + np.array([0, 0, 1, 2, 3, 1, 2, 3])) % 4
    truth = Annotation(np.array([[0.0, 0.0, 32.0, 32.0]]))
    return Crops([f"photo-{i}.png" for i in range(8)], pictures(8), labels, [truth] * 8)


def maps_of(classifier, crops, folder, method, **options) -> BaselineMaps:
    return BaselineMaps(Baseline("Recording", "nobody", method, **options), method, classifier, crops, folder)


def test_the_class_that_is_seen_is_the_one_of_the_highest_logit(classifier, crops) -> None:
    expected = classifier(normalised(classifier, pictures(8))).numpy().argmax(axis=1)
    assert len(set(expected.tolist())) > 1  # or any constant would do
    assert predict_classes(classifier, crops.images).tolist() == expected.tolist()


def test_it_explains_the_true_class_and_the_predicted_one_and_none_twice(classifier, crops, tmp_path) -> None:
    seen, method = predict_classes(classifier, crops.images), Recording()
    true, predicted = maps_of(classifier, crops, tmp_path, method).entries(seen, True, NONE, 100, {})
    assert [one.name for one in (true, predicted)] == ["Recording, the true class", "Recording, the predicted class"]
    masks = true.masks(true.chosen)
    assert method.classes == crops.labels.tolist()
    assert (masks.mean(axis=1).argmax(axis=1) // 16).tolist() == crops.labels.tolist()  # 64 pixels for 4 columns
    masks = predicted.masks(predicted.chosen)
    assert method.classes[8:] == seen[2:].tolist()  # of the first two, the predicted class is the true one
    assert (masks.mean(axis=1).argmax(axis=1) // 16).tolist() == seen.tolist()
    true.masks(true.chosen[::-1])
    assert len(method.classes) == 14
    true.work(np.array([0, 5]))  # the time that it takes is that of making it anew
    assert len(method.classes) == 16


def test_a_classifier_of_other_classes_explains_the_predicted_one_only_and_tells_none(classifier, crops, tmp_path):
    seen = predict_classes(classifier, crops.images)
    (only,) = maps_of(classifier, crops, tmp_path, Recording()).entries(seen, False, NONE, 100, {})
    assert (only.given, only.predicted) == ("the predicted class", None)


@pytest.mark.parametrize(
    ("told", "word"),
    [("nothing", "nothing"), ("boxes", "boxes, in training"), ("masks", "supervised by drawn masks")],
)
def test_what_is_told_no_class_has_one_row(classifier, crops, tmp_path, told, word) -> None:
    shown = np.arange(8) % 3 == 0
    seen = predict_classes(classifier, crops.images)
    (only,) = maps_of(classifier, crops, tmp_path, Recording(), uses=told).entries(seen, True, shown, 100, {})
    assert (only.name, only.given) == (f"Recording, {word}" if told == "masks" else "Recording", word)
    assert only.chosen.tolist() == ([1, 2, 4, 5, 7] if told == "boxes" else list(range(8)))


@pytest.mark.parametrize(("slow", "few", "given"), [(0, 3, 8), (1, 3, 3), (2, 6, 3), (4, 6, 1), (4, 3, 1)])
def test_the_slower_the_fewer_photos(classifier, crops, tmp_path, slow, few, given) -> None:
    seen = predict_classes(classifier, crops.images)
    entry, _ = maps_of(classifier, crops, tmp_path, Recording(), slow=slow).entries(seen, True, NONE, few, {})
    assert len(entry.chosen) == given
    assert (entry.seconds is None) == (slow == 0)


def test_a_slow_one_is_given_the_same_few_whatever_else_there_is(classifier, crops, tmp_path) -> None:
    seen = predict_classes(classifier, crops.images)
    entry, _ = maps_of(classifier, crops, tmp_path, Recording(), slow=1).entries(seen, True, NONE, 3, {})
    assert len(entry.chosen) == 3
    names = {crops.names[i] for i in entry.chosen}
    turned = Crops(crops.names[::-1], crops.images[::-1], crops.labels[::-1], crops.truths)
    assert {turned.names[i] for i in turned.few(3)} == names


def test_the_method_is_given_the_classifier_and_pictures_as_it_knows_them(classifier, crops, tmp_path) -> None:
    method = Recording()
    before = crops.images.copy()
    maps_of(classifier, crops, tmp_path, method).masks(crops.labels, np.array([5, 1]))
    torch.testing.assert_close(method.classifier(method.images[0]), classifier(method.images[0]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(method.images[0], normalised(classifier, crops.images[[5, 1]]), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(crops.images, before)


def test_maps_of_another_program_are_made_again(classifier, crops, tmp_path, monkeypatch) -> None:
    made = []
    for shared in (table1_entries.SHARED, table1_entries.SHARED, table1_entries.SHARED[1:]):
        monkeypatch.setattr(table1_entries, "SHARED", shared)
        method = Recording()
        maps_of(classifier, crops, tmp_path, method).masks(crops.labels, np.array([1]))
        made.append(len(method.classes))
    assert made == [1, 0, 1]


def test_what_a_library_warns_its_authors_of_is_not_for_the_user(classifier, crops, tmp_path, recwarn) -> None:
    def method(*_):
        warnings.warn("in an upcoming release, it will be required to pass the indexing argument", stacklevel=1)
        return torch.rand(1, 4, 4)

    maps_of(classifier, crops, tmp_path, method).masks(crops.labels, np.arange(1))
    assert not recwarn


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(maps=MAPS)
def test_whatever_a_method_says_masks_are_between_0_and_1(classifier, crops, tmp_path_factory, maps) -> None:
    folder = tmp_path_factory.mktemp("maps")
    told = maps_of(classifier, crops, folder, lambda *_: torch.from_numpy(maps))
    masks = told.masks(crops.labels, np.arange(3))
    assert masks.shape == (3, SIDE, SIDE)
    assert masks.min() >= 0
    assert masks.max() <= 1 + 1e-6  # bilinear weights are rounded


def test_maps_that_are_masks_are_left_as_they_are(classifier, crops, tmp_path) -> None:
    method = lambda *_: torch.full((2, 4, 4), 0.25)  # noqa: E731
    masks = maps_of(classifier, crops, tmp_path, method, masks=True).masks(crops.labels, np.arange(2))
    np.testing.assert_allclose(masks, 0.25)


def test_a_mask_is_its_map_enlarged_by_straight_lines(classifier, crops, tmp_path) -> None:
    """2 x 4 positions to 64 x 64 pixels: each centre of a position lies between two pixels that are nearly it."""
    masks = maps_of(classifier, crops, tmp_path, Recording()).masks(np.full(8, 1), np.array([0]))
    across = masks[0, 0]
    np.testing.assert_allclose(masks[0], np.broadcast_to(across, (64, 64)), atol=1e-6)
    # 16 pixels for a position, so from the centre of position 0, at 8, to that of position 1, at 24: steps of 1/16.
    np.testing.assert_allclose(across[:8], 0, atol=1e-6)
    np.testing.assert_allclose(across[8:24], (np.arange(16) + 0.5) / 16, atol=1e-6)
    np.testing.assert_allclose(across[24:40], 1 - (np.arange(16) + 0.5) / 16, atol=1e-6)
    np.testing.assert_allclose(across[40:], 0, atol=1e-6)


def test_a_photo_is_explained_alike_alone_and_among_others(classifier, crops, tmp_path) -> None:
    together = maps_of(classifier, crops, tmp_path / "a", cam).masks(crops.labels, np.arange(4))
    for i in range(4):
        alone = maps_of(classifier, crops, tmp_path / "b", cam).masks(crops.labels, np.array([i]))
        np.testing.assert_allclose(alone[0], together[i], atol=1e-3)
