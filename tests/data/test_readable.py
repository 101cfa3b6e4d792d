"""A few photos that cannot be read stop no training; many do."""

import numpy as np
import PIL.Image
import pytest

from casmap.data.folders import PhotoFolder
from casmap.data.readable import Readable
from casmap.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Two classes of ten photos, each of one grey of its own."""
    for number in range(20):
        path = tmp_path / "ab"[number % 2] / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        PIL.Image.fromarray(np.full((20, 30, 3), 10 * number, np.uint8)).save(path)
    return tmp_path


def damage(path) -> None:
    """Its head is good, its pixels are not."""
    path.write_bytes(path.read_bytes()[:45])


def grey(photos, index) -> int:
    (level,) = np.unique(photos.image(index))
    return int(level)


def test_the_next_of_the_class_stands_in_and_the_photo_is_named(folder) -> None:
    photos = PhotoFolder(folder)
    damage(photos.path(3))
    readable = Readable(photos, limit=0.1)
    for _ in range(2):
        assert [grey(readable, index) for index in (2, 3, 4)] == [grey(photos, index) for index in (2, 4, 4)]
    assert list(readable.skipped) == [3]
    assert photos.names[3] in readable.skipped[3]
    assert readable.told() == f"1 of 20 photos could not be read and are left out: {photos.names[3]}."
    assert readable.labels.tolist() == photos.labels.tolist()


def test_the_last_of_a_class_is_followed_by_its_first(folder) -> None:
    photos = PhotoFolder(folder)
    damage(photos.path(9))
    assert grey(Readable(photos, limit=0.1), 9) == grey(photos, 0)


def test_two_in_a_row_are_passed_over(folder) -> None:
    photos = PhotoFolder(folder)
    for index in (3, 4):
        damage(photos.path(index))
    readable = Readable(photos, limit=0.1)
    assert grey(readable, 3) == grey(readable, 4) == grey(photos, 5)
    assert sorted(readable.skipped) == [3, 4]


def test_more_than_the_limit_is_a_mistake(folder) -> None:
    photos = PhotoFolder(folder)
    for index in (3, 7):
        damage(photos.path(index))
    readable = Readable(photos, limit=0.05)
    readable.image(3)
    with pytest.raises(
        UserError, match=r"2 of 20 photos cannot be read, more than 0\.05 of them; the last: .*/a/"
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
