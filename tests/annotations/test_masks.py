"""Folders of masks, to be read with --masks or as annotations of their own."""

import numpy as np
import PIL.Image
import pytest
from pycocotools import mask as run_lengths

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, Object
from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.errors import UserError


def labelled(folder, name, pixels):
    """A photo with an object that has these pixels (H, W)."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("L", pixels.shape[::-1]).save(folder / name)
    rle = run_lengths.encode(np.asfortranarray(pixels.astype(np.uint8)))
    one = Object("cat", (0, 0, 1, 1), [], rle | {"counts": rle["counts"].decode()}, int(pixels.sum()), 1.0)
    return Labelled(folder / name, name, *pixels.shape[::-1], (one,) if pixels.any() else ())


@pytest.fixture
def ring():
    pixels = np.zeros((12, 16), bool)
    pixels[2:10, 3:14], pixels[4:8, 6:10] = True, False
    return pixels


def test_holes_stay_open_and_the_folder_is_found_by_either_name(tmp_path, ring):
    photo = labelled(tmp_path / "photos", "cat/a.jpg", ring)
    path = FORMATS["masks"].write([photo], ["cat"], tmp_path / "out", WriteOptions())
    assert [file.relative_to(tmp_path).as_posix() for file in path.rglob("*.png")] == ["out/masks/cat/a.png"]
    for options in ({"boxes": path}, {"boxes": tmp_path / "out"}, {"masks": path}):
        found = PhotoFolder(tmp_path / "photos", **options).annotation(0)
        np.testing.assert_array_equal(found.mask, ring * np.uint8(255))
        assert found.boxes.tolist() == [[3, 2, 14, 10]]


def test_a_photo_without_objects_has_a_black_mask_which_is_named(tmp_path, ring):
    photo = labelled(tmp_path / "photos", "cat/a.jpg", ring & False)
    path = FORMATS["masks"].write([photo], [], tmp_path / "out", WriteOptions())
    known, problems = PhotoFolder(tmp_path / "photos", path).read_annotation(0)
    assert known is None
    assert [problem.kind for problem in problems] == [Kind.MASK_EMPTY]


def test_photos_that_would_share_a_mask_are_refused_before_anything_is_written(tmp_path, ring):
    photos = [labelled(tmp_path / "photos", name, ring) for name in ("cat/b.jpg", "cat/a.jpg", "cat/a.png")]
    with pytest.raises(UserError, match=r"cat/a\.png: rename them, or choose another format\.$"):
        FORMATS["masks"].write(photos, ["cat"], tmp_path / "out", WriteOptions())
    assert not (tmp_path / "out").exists()


def test_other_folders_of_images_are_not_masks(tmp_path, ring):
    labelled(tmp_path / "photos", "cat/a.png", ring)
    with pytest.raises(UserError, match="There are no annotations in"):
        PhotoFolder(tmp_path / "photos", tmp_path / "photos")
