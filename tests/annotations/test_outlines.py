"""Outlines: what pycocotools draws is right, what is wrong is left out, and nothing takes more memory than a photo."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pycocotools import mask as coco

from casmap.annotations.regions import rasterize
from casmap.annotations.types import Kind, Skipped


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40)), elements=st.integers(0, 1)))
def test_run_lengths_are_decoded_as_pycocotools_encodes_them(mask):
    runs = coco.encode(np.asfortranarray(mask))
    drawn = rasterize({"size": list(runs["size"]), "counts": runs["counts"].decode()}, mask.shape[::-1])
    np.testing.assert_array_equal(drawn, mask)


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # pycocotools' own
@given(st.lists(st.lists(st.floats(-2, 22), min_size=6, max_size=12).filter(lambda p: len(p) % 2 == 0), min_size=1))
@settings(max_examples=50)
def test_polygons_are_drawn_as_pycocotools_draws_them(polygons):
    expected = coco.decode(coco.merge(coco.frPyObjects(polygons, 15, 20)))
    np.testing.assert_array_equal(rasterize(polygons, (20, 15)), expected)


@pytest.mark.parametrize(
    "outline",
    [
        5,
        "polygon",
        [5],
        [[]],
        [[1, 2, 3, 4]],
        [[1, 2, 3, 4, 5]],
        [[1, 2, 3, 4, 5, "x"]],
        [[1, 2, 3, 4, 5, float("nan")]],
        [[1, 1, 1e9, 1, 1, 1e9]],
        [[0, 0, 7, 5] * 200_000],
        [{"size": [6, 8], "counts": [48]}],
        {},
        {"size": [6, 8]},
        {"size": [8, 6], "counts": [48]},
        {"size": [10**6, 10**6], "counts": [10**12]},
        {"size": [6, 8], "counts": []},
        {"size": [6, 8], "counts": [47]},
        {"size": [6, 8], "counts": [49]},
        {"size": [6, 8], "counts": [-1, 49]},
        {"size": [6, 8], "counts": [10**30]},
        {"size": [6, 8], "counts": [[48]]},
        {"size": [6, 8], "counts": "3"},
        {"size": [6, 8], "counts": "o"},
        {"size": [6, 8], "counts": "oooooooooooooooo0"},
        {"size": [6, 8], "counts": "\x00é"},
        {"size": [6, 8], "counts": ""},
        {"size": 6, "counts": [48]},
    ],
    ids=lambda outline: str(outline)[:40],
)
def test_an_invalid_outline_is_left_out_and_takes_no_memory(outline):
    tracemalloc.start()
    with pytest.raises(Skipped) as caught:
        rasterize(outline, (8, 6))
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert caught.value.kind is Kind.MASK_SKIPPED
