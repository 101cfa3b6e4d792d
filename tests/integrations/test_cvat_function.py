"""The function for CVAT: loaded by cvat-cli, checked by cvat-sdk, and equal to casmap's own objects."""

import logging

import cvat_sdk.auto_annotation as aa
import numpy as np
import PIL.Image
import pytest
from cvat_cli._internal.common import FunctionLoader
from cvat_cli._internal.parsers import parse_function_parameter
from cvat_sdk import models
from cvat_sdk.auto_annotation.driver import _AnnotationMapper, _DetectionFunctionContextImpl
from cvat_sdk.masks import decode_mask

import casmap
from casmap.data.scenes import Scenes
from casmap.errors import UserError

MODULE = "casmap.integrations.cvat"


def load(*parameters: str):
    """The function as `cvat-cli task auto-annotate --function-module MODULE -p ...` loads it."""
    return FunctionLoader(MODULE, None, dict(map(parse_function_parameter, parameters))).load()


def annotate(function, image, conf_threshold=None, conv_mask_to_poly=False, types=None, frame=7):
    """What CVAT's driver uploads for a photo: its own checks, and labels and frames of the task."""
    wanted = [
        models.Label(name=label.name, id=100 + label.id, type=(types or label.type), attributes=[], sublabels=[])
        for label in function.spec.labels
    ]
    mapper = _AnnotationMapper(
        logging.getLogger(), function.spec.labels, wanted, allow_unmatched_labels=False,
        conv_mask_to_poly=conv_mask_to_poly,
    )  # fmt: skip
    context = _DetectionFunctionContextImpl(
        frame_name="cat.jpg", conf_threshold=conf_threshold, conv_mask_to_poly=conv_mask_to_poly
    )
    tags, shapes = mapper.validate_and_remap(function.detect(context, image), frame)
    assert tags == []
    return shapes


@pytest.fixture(scope="module")
def image() -> PIL.Image.Image:
    return PIL.Image.fromarray(Scenes(classes=3, photos=6, size=128).image(1)[:100])


@pytest.fixture(scope="module")
def found(image) -> casmap.SaliencyMap:
    return casmap.load()(image)


def test_rectangles_polygons_and_masks_are_those_of_casmap(image, found) -> None:
    (one,) = found.objects("largest")
    (box,) = annotate(load("shape=str:rectangle"), image)
    (outline,) = annotate(load(), image)
    (pixels,) = annotate(load("shape=str:mask"), image)
    assert (box.type.value, outline.type.value, pixels.type.value) == ("rectangle", "polygon", "mask")
    assert tuple(box.points) == one.box
    assert np.reshape(outline.points, (-1, 2)).tolist() == [list(point) for point in one.polygon]
    np.testing.assert_array_equal(decode_mask(pixels.points, image_width=128, image_height=100), one.mask())
    for shape in (box, outline, pixels):
        assert (shape.frame, shape.label_id, shape.source) == (7, 100, "auto")
        models.LabeledShapeRequest(**shape.to_dict())  # the SDK's own checks of types


def test_cvat_may_ask_for_polygons_instead_of_masks(image, found) -> None:
    (shape,) = annotate(load("shape=str:mask"), image, conv_mask_to_poly=True, types="any")
    assert shape.type.value == "polygon"
    assert len(shape.points) == 2 * len(found.objects("largest")[0].polygon)


def test_all_objects_thresholds_and_confidence(image, found) -> None:
    options = ("objects=str:all", "min_area=float:0", "threshold=float:0.3", "shape=str:rectangle")
    expected = found.objects("all", 0, threshold=0.3)
    assert len(expected) > 1
    assert [tuple(each.points) for each in annotate(load(*options), image)] == [one.box for one in expected]
    middle = sorted(one.score for one in expected)[len(expected) // 2]
    sure = annotate(load(*options), image, conf_threshold=middle)
    assert [tuple(each.points) for each in sure] == [one.box for one in expected if one.score >= middle]
    assert annotate(load(*options), image, conf_threshold=1) == []
    assert annotate(load("alpha=float:1000"), image) == []


def test_labels_are_given_or_predicted(image, found) -> None:
    given = load("label=str:tabby cat").spec
    assert [(label.name, label.type) for label in given.labels] == [("tabby cat", "polygon")]
    predicted = load("classes=str:predicted")
    names = {label.id: label.name for label in predicted.spec.labels}
    assert len(names) == len(set(names.values())) > 990  # two classes of ImageNet are called crane
    (shape,) = annotate(predicted, image)
    assert names[shape.label_id - 100] == found.label


def test_a_task_whose_label_has_another_type_is_refused_before_a_photo_is_read(image) -> None:
    with pytest.raises(aa.BadFunctionError, match="has type 'polygon' in the function, but 'rectangle' in the dataset"):
        annotate(load(), image, types="rectangle")


def test_a_mapping_file_is_used(mapping, image) -> None:
    function = load(f"mapping=str:{mapping}", "classes=str:predicted", "alpha=float:1")
    assert [label.name for label in function.spec.labels] == [f"class-{number:02d}" for number in range(4)]
    annotate(function, image)


@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [
        ("shape=str:circle", "shape must be one of rectangle, polygon, mask, not 'circle'"),
        ("classes=str:folder", "classes must be one of none, predicted, not 'folder'"),
        ("objects=str:two", "objects must be one of largest, all, not 'two'"),
        ("edges=str:soft", "edges must be sharp or smooth, not 'soft'"),
        ("threshold=float:2", "threshold must be in 0..1, not 2.0"),
        ("mapping=str:missing.onnx", "missing.onnx"),
    ],
)
def test_wrong_parameters_are_named(parameter, sentence) -> None:
    with pytest.raises(UserError, match=sentence):
        load(parameter)


def test_without_the_sdk_a_sentence_says_what_to_install(fresh) -> None:
    start = "import sys; sys.modules['cvat_sdk'] = None; import casmap.integrations.cvat"
    done = fresh(start=start)
    assert "casmap.integrations.cvat needs cvat-sdk: pip install " in done.complained
