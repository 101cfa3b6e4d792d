"""COCO files: boxes and masks of what is right, what is wrong is left out."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.annotations.formats.coco import read
from casmap.annotations.types import Kind, Names, Skipped
from casmap.errors import UserError

SQUARE = [[1, 1, 5, 1, 5, 4, 1, 4]]  # the pixels x 1..4, y 1..3
CATEGORIES = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]


def source(tmp_path, *annotations, images=None, categories=CATEGORIES, names=("a.jpg",)):
    path = tmp_path / "instances.json"
    images = [{"id": 7, "file_name": "a.jpg", "width": 8, "height": 6}] if images is None else images
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return read(path, tmp_path, Names(names))


def entry(category=1, bbox=(1, 1, 4, 3), **more):
    return {"image_id": 7, "category_id": category, "bbox": bbox, **more}


def kinds(problems):
    return [problem.kind for problem in problems]


# ---------------------------------------------------------------------------------------------- boxes


def test_boxes_become_edges_and_categories_names(tmp_path):
    known = source(tmp_path, entry(bbox=[1, 2, 3.5, 4]), entry(2, [0, 0, 8, 6], area=5)).of("a.jpg")
    assert [(t.name, t.box, t.area) for t in known.objects] == [("cat", (1, 2, 4.5, 6), 14), ("dog", (0, 0, 8, 6), 5)]
    assert known.size == (8, 6)


def test_crowds_are_no_objects(tmp_path):
    assert not source(tmp_path, entry(iscrowd=1)).of("a.jpg").objects


@settings(max_examples=30)
@given(st.lists(st.tuples(*[st.integers(0, 2000)] * 2, *[st.integers(1, 2000)] * 2), max_size=5))
def test_boxes_are_read_as_they_were_written(tmp_path_factory, boxes):
    known = source(tmp_path_factory.mktemp("coco"), *(entry(bbox=box) for box in boxes)).of("a.jpg")
    assert [one.box for one in known.objects] == [(x, y, x + w, y + h) for x, y, w, h in boxes]


@pytest.mark.parametrize(
    "bbox",
    [[1, 2, 0, 4], [1, 2, -3, 4], [1, 2, 3], ["x", 1, 2, 3], None, 5, [float("nan"), 1, 2, 3], [1, 1, 10**400, 1]],
)
def test_a_bad_box_is_left_out_and_the_others_stay(tmp_path, bbox):
    known = source(tmp_path, entry(bbox=bbox), entry(2)).of("a.jpg")
    assert [one.name for one in known.objects] == ["dog"]
    assert kinds(known.problems) == [Kind.BOX_SKIPPED]


@pytest.mark.parametrize(
    "bad", [{}, [], 5, None, {"image_id": 7}, {"image_id": 7, "category_id": 99}, {"image_id": [1], "category_id": 1}]
)
def test_a_malformed_annotation_is_named_and_the_others_stay(tmp_path, bad):
    found = source(tmp_path, bad, entry())
    assert kinds(found.problems) == [Kind.MALFORMED]
    assert len(found.of("a.jpg").objects) == 1


def test_malformed_images_and_categories_are_named(tmp_path):
    images = [
        {"id": 7, "file_name": "a.jpg"},
        {"id": 8},
        3,
        {"id": 9, "file_name": 5},
        {"id": [], "file_name": "a.jpg"},
    ]
    found = source(tmp_path, entry(), images=images, categories=[*CATEGORIES, {"id": 3}, "cow"])
    assert kinds(found.problems) == [Kind.MALFORMED] * 6
    assert len(found.of("a.jpg").objects) == 1


def test_annotations_without_a_photo_are_named_once_for_each_image(tmp_path):
    images = [{"id": 7, "file_name": "a.jpg"}, {"id": 8, "file_name": "gone.jpg"}]
    gone = [{"image_id": 8, "category_id": 1, "bbox": [1, 1, 2, 2]}] * 3
    found = source(tmp_path, entry(), *gone, {**gone[0], "image_id": 99}, images=images)
    assert kinds(found.problems) == [Kind.NO_PHOTO] * 2
    assert found.problems[0].what == "gone.jpg"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", '{"images": []}', '{"images": [], "annotations": {}, "categories": []}', "[" * 100_000]
)
def test_what_is_no_coco_file_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"a\.json must be a COCO file.*\.$"):
        read(tmp_path / "a.json", tmp_path, Names([]))


# ---------------------------------------------------------------------------------------------- masks


def mask_of(tmp_path, *annotations, size=(8, 6)):
    known = source(tmp_path, *annotations).of("a.jpg")
    return known.mask(known.objects, size)


def test_a_mask_is_the_union_of_outlines_and_crowds_of_the_class_do_not_count(tmp_path):
    runs = {"size": [6, 8], "counts": [0, 12, 36]}  # the first two columns
    last = {"size": [6, 8], "counts": [42, 6]}  # the last column
    mask = mask_of(
        tmp_path,
        entry(segmentation=SQUARE),
        entry(segmentation=runs, iscrowd=1),
        entry(2, segmentation=last, iscrowd=1),
    )
    expected = np.zeros((6, 8), np.uint8)
    expected[:, :2] = 128
    expected[1:4, 1:5] = 255
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("nothing", [{}, {"segmentation": []}, {"segmentation": None}])
def test_objects_without_outline_have_no_mask(tmp_path, nothing):
    assert mask_of(tmp_path, entry(segmentation=SQUARE), entry(**nothing)) is None


def test_a_mask_for_another_size_is_left_out(tmp_path):
    with pytest.raises(Skipped) as caught:
        mask_of(tmp_path, entry(segmentation=SQUARE), size=(6, 8))
    assert caught.value.kind is Kind.MASK_SIZE


@pytest.mark.parametrize("size", [(10**6, 10**6), (0, 5), (-1, -1), ("8", 6), (8.0, 6), (None, 6), (True, True)])
def test_a_photo_entry_of_no_sane_size_has_no_mask(tmp_path, size):
    images = [{"id": 7, "file_name": "a.jpg", "width": size[0], "height": size[1]}]
    known = source(tmp_path, entry(segmentation=SQUARE), images=images).of("a.jpg")
    assert known.mask is None
    assert len(known.objects) == 1
