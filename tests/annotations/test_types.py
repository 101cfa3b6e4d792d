"""What all sources of annotations share: names of photos."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.annotations.types import Names


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("cat/a.jpg", "cat/a.jpg"),
        ("cat/a", "cat/a.jpg"),
        ("a", "cat/a.jpg"),
        ("a.jpg", "cat/a.jpg"),
        ("./cat/../cat/a.jpg", "cat/a.jpg"),
        ("cat\\a.jpg", "cat/a.jpg"),
        ("b.jpg", None),
        ("b", None),
        ("dog/b", "dog/b.jpg"),
        ("dog/a.jpg", None),
        ("dog/a", None),
        ("c.d", "dog/c.d.jpg"),
        ("../cat/a.jpg", None),
        ("", None),
    ],
)
def test_a_photo_in_a_folder_is_found_by_its_name(given, found):
    assert Names(["cat/a.jpg", "cat/b.jpg", "dog/b.jpg", "dog/c.d.jpg"]).find(given) == found


@pytest.mark.parametrize("given", ["a.jpg", "a", "val2014/a.jpg", "n01440764/a", "images/val/a.jpg"])
def test_a_photo_in_no_folder_is_found_whatever_folder_is_given(given):
    assert Names(["a.jpg", "b.jpg"]).find(given) == "a.jpg"


def test_two_photos_of_one_stem_need_their_suffix():
    names = Names(["a.jpg", "a.png"])
    assert names.find("a") is None
    assert names.find("a.png") == "a.png"


@given(st.lists(st.from_regex(r"[ab]{1,2}(/[ab]{1,2})?\.(jpg|png)", fullmatch=True), unique=True))
def test_every_photo_is_found_by_its_own_name(names):
    assert [Names(names).find(name) for name in names] == names
