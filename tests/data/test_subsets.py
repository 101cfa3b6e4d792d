"""Some of the photos of a set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.data.scenes import Scenes
from casmap.data.subsets import Subset, few_of_each, of_classes


@pytest.fixture
def scenes() -> Scenes:
    return Scenes(classes=4, photos=13, size=32)


def test_of_classes_keeps_their_photos_and_numbers_the_classes_anew(scenes) -> None:
    some = of_classes(scenes, ["class-03", "class-01"])
    assert some.classes == ["class-01", "class-03"]
    assert [name.split("/")[0] for name in some.names] == [some.classes[label] for label in some.labels]
    assert set(some.names) == {name for name in scenes.names if name.startswith(("class-01", "class-03"))}


def test_pictures_and_annotations_are_those_of_the_photos_chosen(scenes) -> None:
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
