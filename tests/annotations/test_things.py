"""Boxes, and which objects count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.annotations.things import boxed, gather, main_class, of_class
from casmap.annotations.types import Kind, LeftOut, Thing


def thing(name, side, **options):
    return Thing(name, (0, 0, side, side), side * side, **options)


# ---------------------------------------------------------------------------------------------- boxes


@given(st.tuples(*[st.floats(-1e6, 1e6)] * 4))
def test_a_box_is_its_four_edges_or_is_left_out(numbers):
    x0, y0, x1, y1 = numbers
    if x0 < x1 and y0 < y1:
        assert boxed("", map(repr, numbers)).box == numbers
    else:
        with pytest.raises(LeftOut, match="ends before it begins"):
            boxed("", numbers)


@pytest.mark.parametrize(
    "values", [[], [1, 2, 3], [1, 2, 3, 4, 5], ["a", 1, 2, 3], [None] * 4, [0, 0, float("inf"), 1], [0, 0, 10**400, 1]]
)
def test_what_is_not_four_numbers_is_left_out(values):
    with pytest.raises(LeftOut, match="not four numbers") as caught:
        boxed("", values)
    assert caught.value.problem("a.jpg").kind is Kind.BOX_LEFT_OUT


# ---------------------------------------------------------------------------------------------- classes


def test_the_largest_object_tells_the_class():
    assert main_class([thing("cat", 3), thing("dog", 5), thing("cat", 4)]) == "dog"


def test_a_doubtful_object_tells_the_class_only_where_there_is_no_other():
    assert main_class([thing("cat", 3), thing("dog", 5, doubtful=True)]) == "cat"
    assert main_class([thing("cat", 3, doubtful=True), thing("dog", 5, doubtful=True)]) == "dog"


def test_objects_without_a_name_tell_no_class():
    assert main_class([thing("", 3)]) is None
    assert main_class([]) is None


def test_only_objects_of_the_photos_class_are_kept():
    things = [thing("cat", 3), thing("dog", 5), thing("chair", 2)]
    assert of_class(things, "cat", {"cat", "dog"}) == things[:1]


def test_objects_with_names_of_no_class_are_kept_where_none_has_the_photos():
    things = [thing("tabby", 3), thing("dog", 5), thing("", 2)]
    assert of_class(things, "n02123045", {"n02123045", "dog"}) == [things[0], things[2]]


def test_doubtful_objects_of_the_class_are_kept_only_where_there_is_no_other():
    sure, unsure = thing("cat", 3), thing("cat", 5, doubtful=True)
    assert of_class([sure, unsure], "cat", {"cat"}) == [sure]
    assert of_class([thing("dog", 9), unsure], "cat", {"cat", "dog"}) == [unsure]


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError])
def test_an_object_that_cannot_be_made_stops_no_other(error):
    def broken():
        raise error("no")

    known = gather("a.jpg", [lambda: thing("cat", 3), broken, lambda: thing("dog", 5)])
    assert [one.name for one in known.things] == ["cat", "dog"]
    assert [(one.kind, one.what) for one in known.problems] == [(Kind.MALFORMED, "a.jpg: a region that cannot be read")]
