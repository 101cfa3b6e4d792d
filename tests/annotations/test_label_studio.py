"""Read corrected annotations that Label Studio exported."""

import json

import numpy as np
import pytest

from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.errors import UserError


def region(kind, label, **value):
    return {
        "type": kind, "from_name": "x", "to_name": "image", "original_width": 80, "original_height": 60,
        "value": {kind: [label], **value},
    }  # fmt: skip


BOX = region("rectanglelabels", "cat", x=10, y=20, width=50, height=50, rotation=0)
OUTLINE = region("polygonlabels", "cat", points=[[25, 25], [75, 25], [75, 75], [25, 75]])


def studio(tmp_path, *tasks):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    return path


def task(address, regions, key="annotations", **more):
    return {"id": 1, "data": {"image": address}, key: [{"result": regions, **more}]}


@pytest.mark.parametrize(
    "address",
    ["/data/local-files/?d=cat/1.jpg", "/data/local-files/?d=set/photos/cat%2F1.jpg", "/data/upload/3/0a1b2c3d-1.jpg",
     "https://example.com/photos/cat/1.jpg", "cat/1.jpg", "1.jpg"],
)  # fmt: skip
def test_label_studios_addresses_lead_to_photos(photos, tmp_path, address) -> None:
    data = PhotoFolder(photos, studio(tmp_path, task(address, [BOX])))
    index = data.names.index("cat/1.jpg")
    assert data.annotation(index).boxes.tolist() == [[8.0, 12.0, 48.0, 42.0]]
    assert data.annotation(data.names.index("cat/2.jpg")) is None


def test_outlines_give_masks_and_boxes_that_do_not_fit_them_are_counted(photos, tmp_path) -> None:
    data = PhotoFolder(photos, studio(tmp_path, task("cat/1.jpg", [BOX, OUTLINE])))
    found = data.annotation(data.names.index("cat/1.jpg"))
    assert found.boxes.tolist() == [[8.0, 12.0, 48.0, 42.0]]
    assert found.edited == 1  # nothing says that the outline was changed
    wanted = np.zeros((60, 80), np.uint8)
    wanted[15:45, 20:60] = 255
    np.testing.assert_array_equal(found.mask, wanted)


def test_annotations_take_precedence_over_predictions_and_cancelled_annotations(photos, tmp_path) -> None:
    corrected = task("cat/1.jpg", [OUTLINE])
    corrected["predictions"] = [{"result": [BOX]}]
    corrected["annotations"].append({"result": [BOX], "was_cancelled": True})
    only = task("cat/2.jpg", [BOX], key="predictions")
    data = PhotoFolder(photos, studio(tmp_path, corrected, only))
    assert data.annotation(data.names.index("cat/1.jpg")).boxes.tolist() == [[20.0, 15.0, 60.0, 45.0]]
    assert data.annotation(data.names.index("cat/2.jpg")) is None  # nobody has seen this prediction
    data = PhotoFolder(photos, studio(tmp_path, only))  # as casmap annotate writes it
    assert data.annotation(data.names.index("cat/2.jpg")).boxes.tolist() == [[8.0, 12.0, 48.0, 42.0]]


def test_invalid_tasks_and_regions_are_skipped(photos, tmp_path) -> None:
    broken = region("polygonlabels", "cat", points=[[1], ["a", 2]])
    turned = region("rectanglelabels", "cat", x=1, y=1, width=5, height=5, rotation=30)
    path = studio(tmp_path, {"id": 3}, "what", task("cat/1.jpg", [broken, turned, BOX]), task("missing.jpg", [BOX]))
    data = PhotoFolder(photos, path)
    assert data.annotation(data.names.index("cat/1.jpg")).boxes.tolist() == [[8.0, 12.0, 48.0, 42.0]]
    kinds = [problem.kind for problem in data.problems]
    assert kinds.count(Kind.MALFORMED) == 2
    assert kinds.count(Kind.NO_PHOTO) == 1


def test_an_invalid_file_gives_a_one_sentence_error(photos, tmp_path) -> None:
    (tmp_path / "a.json").write_text("[1, 2")
    with pytest.raises(UserError, match=r"a\.json is not valid JSON"):
        PhotoFolder(photos, tmp_path / "a.json")
