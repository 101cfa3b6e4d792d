"""Evidence in the background, told from masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.evaluation.background import ENOUGH, _on_border, _place_of, background_warnings, mark_warnings


def blob(row, column, side=30, radius=4):
    rows, columns = np.ogrid[:side, :side]
    return ((rows - row) ** 2 + (columns - column) ** 2 < radius**2).astype(np.float32)


@pytest.mark.parametrize(
    ("row", "column", "place"),
    [(5, 5, "top left"), (15, 15, "middle"), (25, 15, "bottom"), (15, 25, "right"), (25, 5, "bottom left")],
)
def test_a_blob_is_where_it_is(row, column, place) -> None:
    assert _place_of(blob(row, column)) == place


def test_empty_masks_lie_nowhere() -> None:
    """Those of normal scans, for example: they were said to lie at the top left."""
    assert background_warnings(np.zeros((20, 30, 30)), np.zeros(20, np.int64), ["normal"]) == []


@given(st.integers(0, 29), st.integers(0, 29))
def test_turning_a_mask_round_turns_its_place(row, column) -> None:
    mask = blob(row, column)
    vertical, horizontal = {"top": "bottom", "bottom": "top"}, {"left": "right", "right": "left"}
    turned = " ".join((vertical | horizontal).get(word, word) for word in _place_of(mask).split())
    assert _place_of(mask[::-1, ::-1]) == turned


def test_an_object_is_not_on_the_border_and_a_frame_is() -> None:
    frame = np.ones((30, 30))
    frame[4:-4, 4:-4] = 0
    assert _on_border(frame)
    assert not _on_border(blob(15, 15))


def test_objects_that_lie_about_are_no_background() -> None:
    chance = np.random.default_rng(0)
    masks = np.stack([blob(*chance.integers(6, 24, 2)) for _ in range(60)])
    assert background_warnings(masks, np.arange(60) % 3, ["a", "b", "c"]) == []


def test_a_corner_in_all_photos_is_told_once() -> None:
    masks = np.stack([blob(4, 4)] * 40)
    (sentence,) = background_warnings(masks, np.arange(40) % 2, ["a", "b"])
    assert "100 % of the photos the mask lies at the top left" in sentence


def test_a_corner_in_the_photos_of_one_class_names_it() -> None:
    chance = np.random.default_rng(0)
    masks = np.stack([blob(26, 26) if index % 3 == 1 else blob(*chance.integers(6, 24, 2)) for index in range(90)])
    (sentence,) = background_warnings(masks, np.arange(90) % 3, ["a", "b", "c"])
    assert "the photos of b the mask lies at the bottom right" in sentence


def test_frames_are_told_of() -> None:
    frame = np.ones((30, 30))
    frame[4:-4, 4:-4] = 0
    (sentence,) = background_warnings(np.stack([frame] * 20), np.zeros(20, np.int64), ["a"])
    assert "along the border" in sentence


def test_few_photos_say_nothing() -> None:
    assert background_warnings(np.stack([blob(4, 4)] * (ENOUGH - 1)), np.zeros(ENOUGH - 1, np.int64), ["a"]) == []


def marked(row: int, column: int, count: int = 45) -> np.ndarray:
    """Objects at random places; in the photos of every third class also a mark."""
    rng = np.random.default_rng(0)
    masks = [blob(*rng.integers(6, 24, 2)) for _ in range(count)]
    return np.stack([np.maximum(mask, blob(row, column)) if n % 3 == 1 else mask for n, mask in enumerate(masks)])


@pytest.mark.parametrize(
    ("row", "column", "place"), [(2, 2, "top left"), (27, 15, "bottom"), (27, 27, "bottom right"), (15, 2, "left")]
)
def test_a_mark_beside_the_object_is_found_in_its_class(row, column, place) -> None:
    (sentence,) = mark_warnings(marked(row, column), np.arange(45) % 3, ["a", "b", "c"])
    assert f"the photos of b the mask marks the {place}, " in sentence


def test_objects_alone_and_few_photos_are_no_mark() -> None:
    rng = np.random.default_rng(0)
    masks = np.stack([blob(*rng.integers(6, 24, 2)) for _ in range(45)])
    assert mark_warnings(masks, np.arange(45) % 3, ["a", "b", "c"]) == []
    few = 3 * ENOUGH - 3
    assert mark_warnings(marked(2, 2, few), np.arange(few) % 3, ["a", "b", "c"]) == []
