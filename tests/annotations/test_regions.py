"""Boxes, and which objects count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.annotations.regions import collect_objects, main_class, object_from_box, of_class
from casmap.annotations.types import AnnotatedObject, Kind, Skipped


def one(name, side, **options):
    return AnnotatedObject(name, (0, 0, side, side), side * side, **options)


# ---------------------------------------------------------------------------------------------- boxes


@given(st.tuples(*[st.floats(-1e6, 1e6)] * 4))
def test_a_box_is_its_four_edges_or_is_left_out(numbers):
    x0, y0, x1, y1 = numbers
    if x0 < x1 and y0 < y1:
        assert object_from_box("", map(repr, numbers)).box == numbers
    else:
        with pytest.raises(Skipped, match="does not have x0 < x1 and y0 < y1"):
            object_from_box("", numbers)


@pytest.mark.parametrize(
    "values", [[], [1, 2, 3], [1, 2, 3, 4, 5], ["a", 1, 2, 3], [None] * 4, [0, 0, float("inf"), 1], [0, 0, 10**400, 1]]
)
def test_what_is_not_four_numbers_is_left_out(values):
    with pytest.raises(Skipped, match="not four numbers") as caught:
        object_from_box("", values)
    assert caught.value.problem("a.jpg").kind is Kind.BOX_SKIPPED


# ---------------------------------------------------------------------------------------------- classes


def test_the_largest_object_gives_the_class():
    assert main_class([one("cat", 3), one("dog", 5), one("cat", 4)]) == "dog"


def test_a_difficult_object_gives_the_class_only_if_there_is_no_other():
    assert main_class([one("cat", 3), one("dog", 5, difficult=True)]) == "cat"
    assert main_class([one("cat", 3, difficult=True), one("dog", 5, difficult=True)]) == "dog"


def test_objects_without_a_name_give_no_class():
    assert main_class([one("", 3)]) is None
    assert main_class([]) is None


def test_only_objects_of_the_photos_class_are_kept():
    objects = [one("cat", 3), one("dog", 5), one("chair", 2)]
    assert of_class(objects, "cat", {"cat", "dog"}) == objects[:1]


def test_objects_with_names_of_no_class_are_kept_where_none_has_the_photos():
    objects = [one("tabby", 3), one("dog", 5), one("", 2)]
    assert of_class(objects, "n02123045", {"n02123045", "dog"}) == [objects[0], objects[2]]


def test_difficult_objects_of_the_class_are_kept_only_if_there_is_no_other():
    sure, unsure = one("cat", 3), one("cat", 5, difficult=True)
    assert of_class([sure, unsure], "cat", {"cat"}) == [sure]
    assert of_class([one("dog", 9), unsure], "cat", {"cat", "dog"}) == [unsure]


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError])
def test_an_invalid_object_is_skipped(error):
    def broken():
        raise error("no")

    known = collect_objects("a.jpg", [lambda: one("cat", 3), broken, lambda: one("dog", 5)])
    assert [one.name for one in known.objects] == ["cat", "dog"]
    assert [(one.kind, one.what) for one in known.problems] == [(Kind.MALFORMED, "a.jpg: an object cannot be read")]
