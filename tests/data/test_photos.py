"""Subsets of photos, and sets that replace a few unreadable photos."""

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.data.folders import PhotoFolder
from casmap.data.photos import Readable, Subset, few_of_each, of_classes
from casmap.data.scenes import Scenes
from casmap.errors import UserError

# ---------------------------------------------------------------------------------------------- subsets


@pytest.fixture
def scenes() -> Scenes:
    return Scenes(classes=4, photos=13, size=32)


def test_of_classes_keeps_their_photos_and_numbers_the_classes_anew(scenes) -> None:
    some = of_classes(scenes, ["class-03", "class-01"])
    assert some.classes == ["class-01", "class-03"]
    assert [name.split("/")[0] for name in some.names] == [some.classes[label] for label in some.labels]
    assert set(some.names) == {name for name in scenes.names if name.startswith(("class-01", "class-03"))}


def test_images_and_annotations_are_those_of_the_chosen_photos(scenes) -> None:
    some = Subset(scenes, np.array([7, 2]))
    assert len(some) == 2
    np.testing.assert_array_equal(some.image(0), scenes.image(7))
    np.testing.assert_array_equal(some.annotation(1).boxes, scenes.annotation(2).boxes)


@given(photos=st.integers(4, 40), seed=st.integers(0, 5), few=st.integers(1, 6), more=st.integers(0, 6))
def test_a_few_of_each_class_are_no_more_than_asked_for_and_among_those_of_a_greater_count(photos, seed, few, more):
    scenes = Scenes(classes=4, photos=photos, size=32)
    some, others = few_of_each(scenes, few, seed), few_of_each(scenes, few + more, seed)
    there = np.bincount(scenes.labels, minlength=4)
    assert np.bincount(some.labels, minlength=4).tolist() == np.minimum(there, few).tolist()
    assert set(some.names) <= set(others.names)


def test_another_seed_draws_others() -> None:
    scenes = Scenes(classes=4, photos=400, size=32)
    assert set(few_of_each(scenes, 5, 0).names) != set(few_of_each(scenes, 5, 1).names)


# ---------------------------------------------------------------------------------------------- unreadable photos


@pytest.fixture
def folder(tmp_path):
    """Two classes of ten photos, each of one grey of its own."""
    for number in range(20):
        path = tmp_path / "ab"[number % 2] / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        PIL.Image.fromarray(np.full((20, 30, 3), 10 * number, np.uint8)).save(path)
    return tmp_path


def damage(path) -> None:
    """Keep the header and remove the pixels."""
    path.write_bytes(path.read_bytes()[:45])


def grey(photos, index) -> int:
    (level,) = np.unique(photos.image(index))
    return int(level)


def test_the_next_photo_of_the_class_replaces_an_unreadable_one(folder) -> None:
    photos = PhotoFolder(folder)
    damage(photos.path(3))
    readable = Readable(photos, limit=0.1)
    for _ in range(2):
        assert [grey(readable, index) for index in (2, 3, 4)] == [grey(photos, index) for index in (2, 4, 4)]
    assert list(readable.skipped) == [3]
    assert photos.names[3] in readable.skipped[3]
    assert readable.skipped_summary() == f"1 of 20 photos could not be read: {photos.names[3]}."
    assert readable.labels.tolist() == photos.labels.tolist()


def test_the_last_of_a_class_is_followed_by_its_first(folder) -> None:
    photos = PhotoFolder(folder)
    damage(photos.path(9))
    assert grey(Readable(photos, limit=0.1), 9) == grey(photos, 0)


def test_two_unreadable_photos_in_a_row_are_replaced(folder) -> None:
    photos = PhotoFolder(folder)
    for index in (3, 4):
        damage(photos.path(index))
    readable = Readable(photos, limit=0.1)
    assert grey(readable, 3) == grey(readable, 4) == grey(photos, 5)
    assert sorted(readable.skipped) == [3, 4]


def test_more_unreadable_photos_than_the_limit_are_an_error(folder) -> None:
    photos = PhotoFolder(folder)
    for index in (3, 7):
        damage(photos.path(index))
    readable = Readable(photos, limit=0.05)
    readable.image(3)
    with pytest.raises(
        UserError,
        match=r"2 of 20 photos cannot be read, more than the limit of 0\.05 of them .*unreadable.*/a/",
    ) as caught:
        readable.image(7)
    assert "\n" not in str(caught.value)


def test_none_of_a_small_set_may_be_unreadable(folder) -> None:
    photos = PhotoFolder(folder)
    damage(photos.path(0))
    with pytest.raises(UserError, match="1 of 20 photos cannot be read"):
        Readable(photos).image(0)


def test_a_class_of_which_nothing_can_be_read_is_named(folder) -> None:
    photos = PhotoFolder(folder)
    for index in range(10):
        damage(photos.path(index))
    with pytest.raises(UserError, match="No photo of the class 'a' can be read"):
        Readable(photos, limit=1.0).image(4)
