"""Batches: functions of the seed and the step alone."""

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.data import batches as module
from casmap.data.batches import Batches, _random_resized_crop, normalised, whole_photos
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize
from casmap.data.scenes import Scenes
from casmap.errors import UnreadableImage

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ANY, FEW = settings(deadline=None), settings(max_examples=12, deadline=None)


def batches(photos=20, size=32, batch=4, **options):
    return Batches(Scenes(classes=4, photos=photos, size=size), size, batch, MEAN, STD, **options)


def listed(source, start, stop):
    return [(images.clone(), labels.clone()) for images, labels in source.between(start, stop)]


def coordinates(height, width):
    """An image whose pixels encode their position: red is x, green is y."""
    ys, xs = np.mgrid[:height, :width]
    return np.stack([xs, ys, np.zeros_like(xs)], axis=-1).astype(np.uint8)


# ---------------------------------------------------------------------------------------------- resuming


@FEW
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 100), st.sampled_from([1, 2, 3]))
def test_a_batch_is_the_same_whatever_step_was_the_first(start, stop, seed, threads):
    whole = listed(batches(seed=seed), 0, 9)
    rest = listed(batches(seed=seed, threads=threads), start, stop)
    assert len(rest) == max(0, stop - start)
    for (images, labels), (images_again, labels_again) in zip(whole[start:stop], rest, strict=True):
        assert torch.equal(images, images_again)
        assert torch.equal(labels, labels_again)


def test_another_seed_gives_other_crops_and_another_order():
    (a, _), (b, _) = next(batches(seed=1).between(0, 1)), next(batches(seed=2).between(0, 1))
    assert not torch.equal(a, b)
    assert batches(seed=1).indices(0).tolist() != batches(seed=2).indices(0).tolist()


def test_each_epoch_crops_a_photo_differently():
    source = batches(photos=4, batch=4, flip=False)
    crops = []
    for step, (images, _) in enumerate(source.between(0, 3)):
        crops.append(images[source.indices(step).tolist().index(2)])
    assert not torch.equal(crops[0], crops[1])
    assert not torch.equal(crops[1], crops[2])


def test_labels_belong_to_the_photos_of_their_step():
    source = batches()
    for step, (images, labels) in enumerate(source.between(0, 7)):
        assert images.shape == (4, 3, 32, 32)
        assert images.dtype == torch.float32
        assert labels.dtype == torch.int64
        assert labels.tolist() == source.photos.labels[source.indices(step)].tolist()


def test_images_belong_to_their_labels():
    """With whole crops of images of the right size, a batch is its photos."""
    source = batches(smallest_crop=1.0, flip=False)
    photos = Scenes(classes=4, photos=20, size=32)
    hits = 0
    for step, (images, _) in enumerate(source.between(0, 5)):
        whole = source.normalise(np.stack([photos.image(int(i)) for i in source.indices(step)]))
        hits += sum(torch.equal(a, b) for a, b in zip(images, whole, strict=True))
        nearest = torch.cdist(images.flatten(1), whole.flatten(1)).argmin(dim=1)
        assert nearest.tolist() == list(range(4))
    assert hits > 0


# ---------------------------------------------------------------------------------------------- epochs


@ANY
@given(st.integers(1, 60), st.integers(1, 20), st.floats(0.05, 1), st.integers(0, 10**6), st.integers(0, 5))
def test_an_epoch_covers_distinct_photos_up_to_its_share(photos, batch, share, seed, epoch):
    """And never less than a batch, where there are as many photos."""
    source = batches(photos=photos, batch=batch, share=share, seed=seed)
    covered = min(photos, max(batch, int(photos * share)))
    steps = covered // source.batch
    taken = np.concatenate([source.indices(epoch * steps + step) for step in range(steps)])
    assert source.batch == min(batch, photos)
    assert len(taken) == steps * source.batch
    assert len(set(taken.tolist())) == len(taken)
    assert covered - source.batch < len(taken) <= covered
    assert taken.min() >= 0
    assert taken.max() < photos


def test_an_epoch_of_all_photos_covers_each_once():
    source = batches(photos=20, batch=4)
    assert sorted(np.concatenate([source.indices(step) for step in range(5, 10)])) == list(range(20))


def test_each_epoch_draws_another_share():
    source = batches(photos=20, batch=4, share=0.2)
    epochs = [frozenset(source.indices(step).tolist()) for step in range(60)]
    assert len(set(epochs)) > 50
    assert frozenset.union(*epochs) == set(range(20))


# ---------------------------------------------------------------------------------------------- crops


@ANY
@given(
    st.integers(20, 60), st.integers(20, 60), st.floats(0.08, 0.9), st.integers(0, 10**6), st.sampled_from([60, 120])
)
def test_a_crop_is_a_part_of_the_photo_with_the_given_size_and_aspect_ratio(height, width, smallest, seed, size):
    crop = _random_resized_crop(coordinates(height, width), size, np.random.default_rng(seed), smallest)
    assert crop.shape == (size, size, 3)
    (left, right), (top, bottom) = ((crop[..., c].min(), int(crop[..., c].max()) + 1) for c in (0, 1))
    w, h = right - int(left), bottom - int(top)
    assert right <= width
    assert bottom <= height
    fits = smallest * height * width <= 0.5 * min(height, width) ** 2  # else no crop of the right shape may be large
    if fits:
        assert (w + 0.5) * (h + 0.5) >= smallest * height * width
        assert (w + 0.5) / (h - 0.5) >= 3 / 4
        assert (w - 0.5) / (h + 0.5) <= 4 / 3


@ANY
@given(st.integers(1, 90), st.integers(1, 90), st.floats(0.08, 1), st.integers(0, 10**6), st.integers(1, 40))
def test_any_photo_can_be_cropped(height, width, smallest, seed, size):
    crop = _random_resized_crop(coordinates(height, width), size, np.random.default_rng(seed), smallest)
    assert crop.shape == (size, size, 3)
    assert crop.dtype == np.uint8
    assert crop[..., 0].max() < width
    assert crop[..., 1].max() < height


def test_crops_reach_every_corner_and_every_size():
    """Crops of many places and sizes: the whole range that was asked for is used."""
    rng = np.random.default_rng(0)
    crops = [_random_resized_crop(coordinates(40, 40), 80, rng, 0.1) for _ in range(300)]
    corners = np.array([[c[..., 0].min(), c[..., 1].min(), c[..., 0].max(), c[..., 1].max()] for c in crops], int)
    assert corners.min(axis=0).tolist()[:2] == [0, 0]
    assert corners.max(axis=0).tolist()[2:] == [39, 39]
    assert corners.max(axis=0)[:2].min() > 15  # small ones begin anywhere
    areas = (np.ptp(corners[:, [0, 2]], axis=1) + 1) * (np.ptp(corners[:, [1, 3]], axis=1) + 1) / 1600
    assert areas.min() < 0.2
    assert areas.max() > 0.8


def test_half_of_the_photos_are_mirrored():
    """Red grows to the right in a photo, so it falls in a mirrored one."""

    class Ramp(Scenes):
        def image(self, index, least=None):
            return coordinates(32, 32) * 6

    def mirrored(flip):
        source = Batches(Ramp(classes=4, photos=20, size=32), 32, 20, (0.0,) * 3, (1.0,) * 3, flip=flip)
        images = torch.cat([images for images, _ in source.between(0, 10)])
        return (images[:, 0, :, 0] > images[:, 0, :, -1]).all(dim=1).float().mean().item()

    assert mirrored(flip=False) == 0
    assert 0.35 < mirrored(flip=True) < 0.65


def test_photos_are_decoded_large_enough_for_the_smallest_crop():
    asked = set()

    class Asked(Scenes):
        def image(self, index, least=None):
            asked.add(least)
            return super().image(index)

    source = Batches(Asked(classes=2, photos=4, size=32), 60, 4, (0.0,) * 3, (1.0,) * 3, smallest_crop=0.25)
    list(source.between(0, 2))
    assert asked == {120}  # a quarter of 120 x 120 is 60 x 60


# ---------------------------------------------------------------------------------------------- pixels


def test_normalising_can_be_undone():
    images = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), dtype=np.uint8)
    tensor = batches().normalise(images)
    assert tensor.shape == (2, 3, 5, 7)
    back = (tensor * torch.tensor(STD).view(1, 3, 1, 1) + torch.tensor(MEAN).view(1, 3, 1, 1)) * 255
    np.testing.assert_array_equal(back.permute(0, 2, 3, 1).round().numpy().astype(np.uint8), images)


def test_the_mean_colour_becomes_zero():
    mean = (51 / 255, 102 / 255, 204 / 255)
    source = Batches(Scenes(photos=4), 32, 4, mean, STD)
    assert source.normalise(np.full((1, 4, 4, 3), (51, 102, 204), np.uint8)).abs().max() < 1e-5


# ---------------------------------------------------------------------------------------------- bad photos


def test_the_error_of_an_unreadable_photo_is_unchanged(tmp_path):
    for number in range(6):
        path = tmp_path / f"class-{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        PIL.Image.new("RGB", (40, 40)).save(path)
    (tmp_path / "class-1" / "3.png").write_bytes(b"not an image")
    source = Batches(PhotoFolder(tmp_path), 32, 2, MEAN, STD)
    with pytest.raises(UnreadableImage, match=r"3\.png"):
        list(source.between(0, 3))


def test_batches_before_an_unreadable_photo_are_given(tmp_path):
    for number in range(8):
        path = tmp_path / f"class-{number % 2}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        PIL.Image.new("RGB", (40, 40)).save(path)
    photos = PhotoFolder(tmp_path)
    source = Batches(photos, 32, 2, MEAN, STD)
    (tmp_path / photos.names[source.indices(3)[0]]).write_bytes(b"not an image")
    made = source.between(0, 4)
    assert [next(made)[1].shape for _ in range(3)] == [(2,)] * 3
    with pytest.raises(UnreadableImage):
        next(made)


# ---------------------------------------------------------------------------------------------- whole photos


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_whole_photos_come_in_order_with_their_labels_at_every_size(batch, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 5)  # shorter than the list, and no multiple of a batch
    photos = Scenes(classes=4, photos=20, size=40)
    chosen = np.array([2, 3, 5, 7, 11, 13, 17, 19])
    found = list(whole_photos(photos, chosen, (32, 24), batch))
    assert all(len(labels) == len(small) == len(large) <= batch for labels, (large, small) in found)
    np.testing.assert_array_equal(torch.cat([labels for labels, _ in found]), photos.labels[chosen])
    for place, size in enumerate((32, 24)):
        expected = np.stack([resize(photos.image(int(i)), size, "squash") for i in chosen])
        np.testing.assert_array_equal(np.concatenate([images[place] for _, images in found]), expected)


def test_whole_photos_are_normalised_as_batches_are():
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    expected = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(
        STD
    ).view(3, 1, 1)
    torch.testing.assert_close(normalised(images, MEAN, STD), expected)
