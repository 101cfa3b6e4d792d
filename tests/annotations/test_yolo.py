"""YOLO's folders as other tools write them, and as they arrive damaged."""

import builtins

import numpy as np
import PIL.Image
import pytest

from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.errors import UserError


@pytest.fixture
def yolo(tmp_path):
    """Write labels and data.yaml for photos of 20 x 10 pixels."""

    def write(names="names: [cat, dog]\n", **labels):
        for stem in ("a", "b"):
            (tmp_path / "images").mkdir(exist_ok=True)
            PIL.Image.new("RGB", (20, 10)).save(tmp_path / "images" / f"{stem}.jpg")
        (tmp_path / "labels").mkdir(exist_ok=True)
        for stem, text in labels.items():
            (tmp_path / "labels" / f"{stem}.txt").write_text(text)
        (tmp_path / "data.yaml").write_text(names)
        return tmp_path

    return write


@pytest.mark.parametrize("names", ["names: [cat, dog]\n", "names: {0: cat, 1: dog}\n", "nc: 2\nnames:\n- cat\n- dog\n"])
@pytest.mark.parametrize("file", ["", "data.yaml"])
def test_boxes_are_in_pixels_and_classes_named(yolo, names, file):
    root = yolo(names, a="1 0.5 0.5 0.5 0.4\n", b="0 0.25 0.5 0.5 1.0 0.87\n")
    photos = PhotoFolder(root / "images", root / file)
    assert photos.classes == ["cat", "dog"]
    assert photos.labels.tolist() == [1, 0]
    np.testing.assert_allclose(photos.annotation(0).boxes, [[5, 3, 15, 7]])
    np.testing.assert_allclose(photos.annotation(1).boxes, [[0, 0, 10, 10]])  # how sure a network is does not matter
    assert photos.annotation(0).mask is None


def test_outlines_are_drawn(yolo):
    root = yolo(a="0 0.1 0.2 0.5 0.2 0.5 0.8 0.1 0.8\n\n", b="1 0.5 0.5 1 1\n0 0 0 0.1 0 0.1 0.1\n")
    photos = PhotoFolder(root / "images", root)
    wanted = np.zeros((10, 20), np.uint8)
    wanted[2:8, 2:10] = 255
    np.testing.assert_array_equal(photos.annotation(0).mask, wanted)
    assert photos.classes[photos.labels[1]] == "dog"  # the larger one
    assert photos.annotation(1).mask is None


def test_bad_lines_are_named_and_the_others_stay(yolo):
    lines = ["0 0.5 0.5 0.5 0.4", "7 0.5 0.5 0.5 0.4", "0 0.5 0.5", "0 a b c d", "0 0.5 0.5 0 0.4", "0 nan 0 1 1", "x"]
    root = yolo(a="\n".join(lines), b="0 0.5 0.5 1 1", gone="0 0.5 0.5 1 1")
    photos = PhotoFolder(root / "images", root)
    known, problems = photos.read_annotation(0)
    np.testing.assert_allclose(known.boxes, [[5, 3, 15, 7]])
    kinds = [problem.kind for problem in problems]
    assert (kinds.count(Kind.MALFORMED), kinds.count(Kind.BOX_SKIPPED)) == (3, 3)
    assert "a.jpg: class 7 is not in data.yaml" in [problem.what for problem in problems]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [(Kind.NO_PHOTO, "gone.txt")]


@pytest.mark.parametrize("text", ["", "names", "names: cat", "train: images", "names: [", "- 1", "names: \x00"])
def test_a_data_yaml_without_names_is_one_sentence(yolo, text):
    root = yolo(text, a="0 0.5 0.5 1 1")
    with pytest.raises(UserError, match=r"data\.yaml must be a YAML file with the names of the classes.*\.$"):
        PhotoFolder(root / "images", root)


def test_without_pyyaml_the_sentence_says_what_to_install(yolo, monkeypatch):
    root, real = yolo(a="0 0.5 0.5 1 1"), builtins.__import__

    def without(name, *more, **options):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match="needs PyYAML: pip install pyyaml"):
        PhotoFolder(root / "images", root)
