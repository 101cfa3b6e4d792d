"""The text files of wsolevaluation."""

import numpy as np
import PIL.Image
import pytest

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, Object
from casmap.annotations.types import Kind
from casmap.data.sources import open_photos
from casmap.errors import UserError


def photo(path, width=16, height=12, shade=100):
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("L", (width, height), shade).save(path)


@pytest.fixture
def files(tmp_path):
    """Write text files; those not named are not there."""

    def write(**texts):
        for name, lines in texts.items():
            path = tmp_path / "metadata" / f"{name}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines))
        return tmp_path / "metadata"

    return write


@pytest.fixture
def val(tmp_path):
    for name in ("val/1.png", "val/2.png", "val/10.png", "val/unlisted.png"):
        photo(tmp_path / "photos" / name)
    return tmp_path / "photos"


def test_photos_classes_sizes_and_boxes_come_from_the_files(val, files):
    metadata = files(
        image_ids=["val/1.png", "val/2.png", "val/10.png"],
        class_labels=["val/1.png,9", "val/2.png,10", "val/10.png,9"],
        image_sizes=["val/1.png,16,12", "val/2.png,32,48", "val/10.png,16,12"],
        localization=["val/1.png,1,2,3,4", "val/1.png,5,6,7,8", "val/2.png,2,4,32,48"],
    )
    for boxes in (metadata, metadata / "localization.txt"):
        photos = open_photos(str(val), boxes=boxes)
        assert photos.names == ["val/1.png", "val/2.png", "val/10.png"]
        assert photos.classes == ["9", "10"]
        assert photos.labels.tolist() == [0, 1, 0]
        assert photos.annotation(0).boxes.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
        assert photos.annotation(1).boxes.tolist() == [[1, 1, 16, 12]]  # half as wide, a quarter as high
        assert photos.annotation(2) is None
        assert photos.problems == []


def test_classes_are_named_by_folders_where_they_go_one_to_one(tmp_path, files):
    for name in ("train/cat/1.png", "train/dog/2.png", "train/dog/3.png"):
        photo(tmp_path / "photos" / name)
    metadata = files(
        image_ids=["train/dog/2.png", "train/cat/1.png"],
        class_labels=["train/dog/2.png,0", "train/cat/1.png,1"],
        localization=["train/cat/1.png,1,2,3,4"],
    )
    photos = open_photos(str(tmp_path / "photos"), boxes=metadata)
    assert photos.classes == ["cat", "dog"]
    assert photos.names == ["train/dog/2.png", "train/cat/1.png"]
    assert photos.labels.tolist() == [1, 0]


def test_localization_alone_leaves_classes_to_the_folders(tmp_path, files):
    for name in ("cat/1.png", "dog/2.png"):
        photo(tmp_path / "photos" / name)
    photos = open_photos(str(tmp_path / "photos"), boxes=files(localization=["cat/1.png,1,2,3,4"]))
    assert photos.classes == ["cat", "dog"]
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


def test_masks_are_joined_resized_and_ignored_pixels_do_not_count(val, files, tmp_path):
    left, right, ignored = (np.zeros((6, 8), np.uint8) for _ in range(3))
    left[:, :2], right[:, 6:], ignored[:2] = 255, 1, 255  # all that is not black
    for name, array in (
        ("photos/masks/left.png", left),
        ("metadata/right.png", right),
        ("photos/ignored.png", ignored),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        PIL.Image.fromarray(array).save(tmp_path / name)
    metadata = files(
        image_ids=["val/1.png", "val/2.png"],
        class_labels=["val/1.png,0", "val/2.png,1"],
        localization=["val/1.png,masks/left.png,ignored.png", "val/1.png,right.png,", "val/2.png,gone.png,"],
    )
    photos = open_photos(str(val), boxes=metadata)
    expected = np.zeros((12, 16), np.uint8)
    expected[:4], expected[:, :4], expected[:, 12:] = 128, 255, 255
    np.testing.assert_array_equal(photos.annotation(0).mask, expected)
    assert photos.annotation(0).boxes.tolist() == [[0, 0, 16, 12]]
    known, problems = photos.read_annotation(1)
    assert known is None
    assert [problem.kind for problem in problems] == [Kind.MASK_SKIPPED]


def test_bad_lines_are_named_and_the_others_stay(val, files):
    metadata = files(
        image_ids=["val/1.png", "", "val/gone.png", "../../secret.png"],
        class_labels=["val/1.png,3", "val/2.png,three", "val/2.png"],
        image_sizes=["val/1.png,16", "val/1.png,0x10,12"],
        localization=["val/1.png,1,2,3,4", "val/1.png,9,2,3,4", "val/1.png,1,2", "val/1.png,1,2,x,4", "val/1.png"],
    )
    photos = open_photos(str(val), boxes=metadata)
    assert photos.names == ["val/1.png"]
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3, 4]]
    found = [problem.kind for problem in photos.problems]
    assert found.count(Kind.NO_PHOTO) == 2
    assert found.count(Kind.MALFORMED) == 5
    assert found.count(Kind.BOX_SKIPPED) == 2


@pytest.mark.parametrize("size", ["0,12", "16,0"])
def test_a_size_of_nothing_is_no_size(val, files, size):
    metadata = files(localization=["val/1.png,1,2,3,4"], image_sizes=[f"val/1.png,{size}"])
    assert open_photos(str(val), boxes=metadata).annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


def test_a_folder_without_localization_is_refused(val, files):
    with pytest.raises(UserError, match=r"localization\.txt\.$"):
        open_photos(str(val), boxes=files(image_ids=["val/1.png"]))


def test_a_file_that_is_not_text_is_refused(val, files):
    metadata = files(localization=["x"])
    (metadata / "localization.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"localization\.txt is not a text file"):
        open_photos(str(val), boxes=metadata)


@pytest.mark.parametrize("name", ["a,b.png", "a\nb.png", " a.png", "a\x85b.png"])
def test_a_name_that_the_files_cannot_represent_is_refused(tmp_path, name):
    photo = Labelled(tmp_path / name, name, 16, 12, ())
    with pytest.raises(UserError, match="wsolevaluation cannot represent the name"):
        FORMATS["wsol"].write([photo], [], tmp_path / "out", WriteOptions())
    assert not (tmp_path / "out").exists()


def test_written_classes_are_numbers_of_the_first_objects(tmp_path):
    objects = [Object(label, (1, 2, 3, 4), [], {}, 4, 1.0) for label in ("dog", "cat")]
    photos = [
        Labelled(tmp_path / "a.png", "x y/a.png", 16, 12, tuple(objects)),
        Labelled(tmp_path / "b.png", "x y/b.png", 8, 6, ()),
    ]
    out = FORMATS["wsol"].write(photos, ["cat", "dog"], tmp_path, WriteOptions()).parent
    assert {path.stem: path.read_text().splitlines() for path in out.iterdir()} == {
        "image_ids": ["x y/a.png", "x y/b.png"],
        "class_labels": ["x y/a.png,1"],
        "image_sizes": ["x y/a.png,16,12", "x y/b.png,8,6"],
        "localization": ["x y/a.png,1,2,3,4", "x y/a.png,1,2,3,4"],
    }
