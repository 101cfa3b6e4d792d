"""YOLO data sets of other tools, damaged ones, and the splits that casmap writes."""

import builtins
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.formats import yolo
from casmap.annotations.labelled import Labelled, Object
from casmap.annotations.types import Kind
from casmap.cli.main import app
from casmap.data.folders import PhotoFolder
from casmap.errors import UserError
from casmap.io.reading import MAX_YAML


@pytest.fixture
def dataset(tmp_path):
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
def test_boxes_are_in_pixels_and_classes_named(dataset, names, file):
    root = dataset(names, a="1 0.5 0.5 0.5 0.4\n", b="0 0.25 0.5 0.5 1.0 0.87\n")
    photos = PhotoFolder(root / "images", root / file)
    assert photos.classes == ["cat", "dog"]
    assert photos.labels.tolist() == [1, 0]
    np.testing.assert_allclose(photos.annotation(0).boxes, [[5, 3, 15, 7]])
    np.testing.assert_allclose(photos.annotation(1).boxes, [[0, 0, 10, 10]])  # how sure a network is does not matter
    assert photos.annotation(0).mask is None


def test_both_splits_are_read(tmp_path):
    """The layout of Ultralytics: images/train and images/val, labels/train and labels/val."""
    for split, stem in (("train", "a"), ("val", "b")):
        for folder in ("images", "labels"):
            (tmp_path / folder / split).mkdir(parents=True)
        PIL.Image.new("RGB", (20, 10)).save(tmp_path / "images" / split / f"{stem}.jpg")
        (tmp_path / "labels" / split / f"{stem}.txt").write_text("0 0.5 0.5 0.5 0.4\n")
    (tmp_path / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [cat]\n")
    for root, names in (("images", ["train/a.jpg", "val/b.jpg"]), ("images/val", ["b.jpg"])):
        photos = PhotoFolder(tmp_path / root, tmp_path)
        assert photos.names == names
        assert photos.classes == ["cat"]
        np.testing.assert_allclose(
            [photos.annotation(i).boxes[0] for i in range(len(photos))], [[5, 3, 15, 7]] * len(names)
        )


def labelled(names):
    return [Labelled(Path(name), name, 20, 10, ()) for name in names]


def split_of(photos, out, val=0.1):
    """Write photos, and return the names in train.txt and val.txt."""
    for photo in photos:
        photo.file.parent.mkdir(parents=True, exist_ok=True)
        photo.file.touch()
    FORMATS["yolo"].write(photos, ["cat"], out, WriteOptions(val=val))
    return [(out / f"{split}.txt").read_text().splitlines() for split in ("train", "val")]


def test_the_split_is_by_name_and_stays_when_photos_are_added(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"{number:03}.jpg" for number in range(300)]
    some, more = (split_of(labelled(names[:count]), tmp_path / str(count)) for count in (200, 300))
    for train, val in (some, more):
        assert not set(train) & set(val)
    assert set(some[0]) <= set(more[0])
    assert set(some[1]) <= set(more[1])
    assert 15 <= len(more[1]) <= 45


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_photos_are_in_both_splits(tmp_path, monkeypatch, count):
    monkeypatch.chdir(tmp_path)
    train, val = split_of(labelled([f"{number}.jpg" for number in range(count)]), tmp_path / "out")
    assert len(train) == count - 1
    assert len(val) == 1


def test_one_photo_has_no_validation_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").touch()
    path = FORMATS["yolo"].write(labelled(["a.jpg"]), ["cat"], tmp_path / "out", WriteOptions())
    assert yaml.safe_load(path.read_text()) == {"train": "images", "names": {0: "cat"}}


@pytest.mark.parametrize(("share", "count"), [("0.5", 2), ("1", 3)])
def test_the_command_sets_the_share_of_the_validation_split(tmp_path, share, count):
    for number in range(4):
        PIL.Image.new("RGB", (20, 10)).save(tmp_path / f"{number}.png")
    arguments = ["annotate", str(tmp_path / "*.png"), "--format", "yolo", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*arguments, "--val", share])
    assert done.exit_code == 0, done.output
    assert "class 'object'" in done.output.replace("\n", " ")
    assert len((tmp_path / "out" / "val.txt").read_text().splitlines()) == count


def test_each_photo_has_one_line_in_the_lists_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["a.jpg", "b\nc.jpg", "d.j\npg", os.fsdecode(b"e\xe9.j\xe9\x85g")]
    train, val = split_of(labelled(names), tmp_path / "out", val=0.5)
    assert len({*train, *val}) == len(train) + len(val) == 4
    assert all((tmp_path / "out" / file).is_file() for file in train + val)


@given(st.lists(st.text(), unique=True))
@example(["\U0001f600 cat", "a\u2028b", "\ufeff", '"', "\\", "\x85\x7f\t\n", ": #", "\uffff"])
def test_class_names_of_any_characters_are_read_back_also_by_yaml(labels):
    with tempfile.TemporaryDirectory() as out:
        path = FORMATS["yolo"].write([], labels, Path(out), WriteOptions())
        wanted = {str(number): label for number, label in enumerate(labels)}
        assert yolo._own_labels(path.read_text()) == wanted
        names = yaml.safe_load(path.read_text())["names"] or {}
        assert {str(number): label for number, label in names.items()} == wanted


def test_more_classes_than_yaml_may_have_are_read_back_without_pyyaml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "yaml", None)
    Path("photos").mkdir()
    PIL.Image.new("RGB", (20, 10)).save("photos/a.jpg")
    labels = [f"class {number:05}" for number in range(30_000)]
    one = Object(labels[-1], (5, 3, 15, 7), [], {}, 40, 1.0)
    photo = Labelled(Path("photos/a.jpg"), "a.jpg", 20, 10, (one,))
    path = FORMATS["yolo"].write([photo], labels, tmp_path / "out", WriteOptions())
    assert path.stat().st_size > MAX_YAML
    assert PhotoFolder("photos", path).classes == labels[-1:]


def test_a_data_yaml_that_was_changed_is_read_as_yaml(tmp_path):
    path = FORMATS["yolo"].write([], ["cat", "dog"], tmp_path, WriteOptions())
    for old, new in (('"cat"', "'bird'"), ('  0: "cat"\n', '  0: "bird" # "cat"\n'), ('"cat"', r'"\x62ird"')):
        changed = path.read_text().replace(old, new)
        assert yolo._own_labels(changed) is None
        assert yaml.safe_load(changed)["names"] == {0: "bird", 1: "dog"}


def test_outlines_are_drawn(dataset):
    root = dataset(a="0 0.1 0.2 0.5 0.2 0.5 0.8 0.1 0.8\n\n", b="1 0.5 0.5 1 1\n0 0 0 0.1 0 0.1 0.1\n")
    photos = PhotoFolder(root / "images", root)
    wanted = np.zeros((10, 20), np.uint8)
    wanted[2:8, 2:10] = 255
    np.testing.assert_array_equal(photos.annotation(0).mask, wanted)
    assert photos.classes[photos.labels[1]] == "dog"  # the larger one
    assert photos.annotation(1).mask is None


def test_bad_lines_are_named_and_the_others_stay(dataset):
    lines = ["0 0.5 0.5 0.5 0.4", "7 0.5 0.5 0.5 0.4", "0 0.5 0.5", "0 a b c d", "0 0.5 0.5 0 0.4", "0 nan 0 1 1", "x"]
    root = dataset(a="\n".join(lines), b="0 0.5 0.5 1 1", gone="0 0.5 0.5 1 1")
    photos = PhotoFolder(root / "images", root)
    known, problems = photos.read_annotation(0)
    np.testing.assert_allclose(known.boxes, [[5, 3, 15, 7]])
    kinds = [problem.kind for problem in problems]
    assert (kinds.count(Kind.MALFORMED), kinds.count(Kind.BOX_SKIPPED)) == (3, 3)
    assert "a.jpg: class 7 is not in data.yaml" in [problem.what for problem in problems]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [(Kind.NO_PHOTO, "gone.txt")]


@pytest.mark.parametrize("text", ["", "names", "names: cat", "train: images", "names: [", "- 1", "names: \x00"])
def test_a_data_yaml_without_names_gives_a_one_sentence_error(dataset, text):
    root = dataset(text, a="0 0.5 0.5 1 1")
    with pytest.raises(UserError, match=r"data\.yaml must be a YAML file with the names of the classes.*\.$"):
        PhotoFolder(root / "images", root)


def test_without_pyyaml_the_error_names_the_package(dataset, monkeypatch):
    root, real = dataset(a="0 0.5 0.5 1 1"), builtins.__import__

    def without(name, *more, **options):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match="needs PyYAML: pip install pyyaml"):
        PhotoFolder(root / "images", root)
