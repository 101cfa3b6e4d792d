"""Label Studio's brush masks, compared with its own converter."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from label_studio_converter import brush

from casmap.annotations.brush import decode_brush, encode_brush
from casmap.annotations.format import FORMATS
from casmap.annotations.types import Names
from casmap.data.folders import PhotoFolder

MASKS = st.tuples(st.integers(1, 40), st.integers(1, 40)).flatmap(lambda shape: arrays.arrays(bool, shape))


@given(MASKS)
def test_label_studios_converter_reads_what_is_encoded(mask) -> None:
    decoded = brush.decode_rle(encode_brush(mask)).reshape(*mask.shape, 4)
    np.testing.assert_array_equal(decoded, np.where(mask, 255, 0)[..., None].repeat(4, -1))


@given(MASKS)
def test_what_label_studios_converter_encodes_is_decoded(mask) -> None:
    theirs = brush.encode_rle(np.where(mask, 255, 0).astype(np.uint8)[..., None].repeat(4, -1).ravel())
    np.testing.assert_array_equal(decode_brush(theirs, mask.shape[::-1]), mask)
    np.testing.assert_array_equal(decode_brush(encode_brush(mask), mask.shape[::-1]), mask)


def test_runs_longer_than_the_widest_length_and_single_values_are_read() -> None:
    mask = np.zeros((300, 300), bool)
    mask[2:299, 1:] = True
    mask[:, 0] = True
    np.testing.assert_array_equal(decode_brush(encode_brush(mask), (300, 300)), mask)
    np.testing.assert_array_equal(decode_brush(encode_brush(~np.zeros_like(mask)), (300, 300)), True)
    # 0 for single values, a length of 4 in a width of 3, and the four channels of a pixel: only alpha counts
    bits = f"{4:032b}{7:05b}" + "".join(f"{width - 1:04b}" for width in (3, 4, 8, 16)) + "0" + "00" + "011"
    for alpha in (0, 7):
        packed = bits + "".join(f"{value:08b}" for value in (9, 9, 9, alpha))
        rle = np.packbits(np.array(list(packed), np.uint8)).tolist()
        assert decode_brush(rle, (1, 1)).tolist() == [[alpha > 0]]


@pytest.mark.parametrize(
    "rle",
    [[], [1], [0, 0, 0, 8], encode_brush(np.ones((3, 3), bool)), encode_brush(np.ones((2, 2), bool))[:-2], [256], ["x"],
     None, [255] * 40, 16, "rle"],
)  # fmt: skip
def test_damaged_masks_are_problems_of_their_photo(photos, tmp_path, rle) -> None:
    good = {"format": "rle", "rle": encode_brush(np.eye(60, 80, dtype=bool)), "brushlabels": ["cat"]}
    region = {"type": "brushlabels", "original_width": 80, "original_height": 60, "value": good}
    bad = region | {"original_width": 2, "original_height": 2, "value": good | {"rle": rle}}
    huge = region | {"original_width": 10**9, "original_height": 10**9}
    task = {"data": {"image": "/data/upload/1/1.jpg"}, "annotations": [{"result": [region, bad, huge]}]}
    (tmp_path / "export.json").write_text(json.dumps([task]))
    known = FORMATS["label-studio"].read(tmp_path / "export.json", photos, Names(["cat/1.jpg"])).of("cat/1.jpg")
    assert len(known.objects) == 1
    assert len(known.problems) == 2


def test_numbers_and_lists_of_another_size_are_refused_before_memory_is_allocated() -> None:
    with pytest.raises(ValueError, match="the run lengths are not a list"):
        decode_brush(2_000_000, (2, 2))  # bytes(n) would be n zeros
    with pytest.raises(ValueError, match="the run lengths are those of another size"):
        decode_brush([0, 0, 0, 8, 256], (2, 2))  # bytes([256]) would be another error
    with pytest.raises(ValueError, match="the values do not have 8 bits"):
        decode_brush([0, 0, 0, 16, 0, 0, 0], (2, 2))


def test_masks_of_an_export_are_read(photos, tmp_path) -> None:
    mask = np.zeros((60, 80), bool)
    mask[10:20, 30:50] = True
    mask[12, 32] = False
    value = {"format": "rle", "rle": encode_brush(mask), "brushlabels": ["cat"]}
    region = {"type": "brushlabels", "original_width": 80, "original_height": 60, "value": value}
    task = {"data": {"image": "/data/local-files/?d=photos/cat/1.jpg"}, "annotations": [{"result": [region]}]}
    (tmp_path / "export.json").write_text(json.dumps([task]))
    data = PhotoFolder(photos, tmp_path / "export.json")
    found = data.annotation(data.names.index("cat/1.jpg"))
    np.testing.assert_array_equal(found.mask == 255, mask)
    assert found.boxes.tolist() == [[30.0, 10.0, 50.0, 20.0]]


def test_a_mask_that_a_person_painted_is_read_as_label_studio_does() -> None:
    """An export of Label Studio 1.23.2: casmap's mask of a cat, and a stroke of the brush in the browser."""
    exported = json.loads((Path(__file__).parent / "label_studio_painted.json").read_text())
    (region,) = exported[0]["annotations"][0]["result"]
    size, rle = (region["original_width"], region["original_height"]), region["value"]["rle"]
    mask = decode_brush(rle, size)
    np.testing.assert_array_equal(mask, brush.decode_rle(rle).reshape(*size[::-1], 4)[..., 3] > 0)
    assert mask[100, 407:419].all()  # the stroke
    assert not mask[100, 419:].any()
