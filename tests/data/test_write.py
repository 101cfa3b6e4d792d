"""Scenes as ordinary files: what is written is what is read."""

import io

import numpy as np
import PIL.Image
import pytest
from rich.console import Console

from casmap.cli.console import RichReporter
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.write import write_photos
from casmap.errors import UserError


@pytest.mark.parametrize("variant", ["plain", "split-twins"])
def test_written_scenes_are_read_as_they_were(tmp_path, variant):
    scenes = Scenes(classes=3, photos=7, size=32, seed=2, variant=variant)
    out = tmp_path / "scenes"
    assert write_photos(scenes, out).photos == out / "photos"
    photos = PhotoFolder(out / "photos", boxes=out / "boxes.csv", masks=out / "masks")
    assert photos.classes == scenes.classes
    assert sorted(photos.names) == sorted(scenes.names)
    for here, name in enumerate(photos.names):
        there = scenes.names.index(name)
        assert photos.labels[here] == scenes.labels[there]
        np.testing.assert_array_equal(photos.image(here), scenes.image(there))
        np.testing.assert_array_equal(photos.annotation(here).mask, scenes.annotation(there).mask)
        np.testing.assert_array_equal(photos.annotation(here).boxes, scenes.annotation(there).boxes)


def test_each_part_has_its_own_file(tmp_path):
    scenes = Scenes(classes=2, photos=2, size=32)
    write_photos(scenes, tmp_path)
    for index, name in enumerate(scenes.names):
        for number, part in enumerate(scenes.annotation(index).parts):
            path = (tmp_path / "parts" / name).with_suffix(f".{number}.png")
            np.testing.assert_array_equal(np.asarray(PIL.Image.open(path)), part * np.uint8(255))
    assert len(list((tmp_path / "parts").rglob("*.png"))) == 6


def test_the_table_has_every_photos_size_and_boxes(tmp_path):
    scenes = Scenes(classes=2, photos=2, size=32, variant="twins")
    write_photos(scenes, tmp_path)
    head, *lines = (tmp_path / "boxes.csv").read_text().splitlines()
    assert head == "file,width,height,xmin,ymin,xmax,ymax"
    assert len(lines) == 4
    file, *numbers = lines[0].split(",")
    assert file == f"photos/{scenes.names[0]}"
    assert [float(n) for n in numbers] == [32, 32, *scenes.annotation(0).boxes[0]]


def test_photos_without_annotations_are_written(tmp_path):
    path = tmp_path / "in" / "cat" / "a.jpg"
    path.parent.mkdir(parents=True)
    PIL.Image.new("RGB", (8, 6), "red").save(path)
    write_photos(PhotoFolder(tmp_path / "in"), tmp_path / "out")
    assert (tmp_path / "out" / "boxes.csv").read_text().splitlines() == ["file,width,height,xmin,ymin,xmax,ymax"]
    with PIL.Image.open(tmp_path / "out" / "photos" / "cat" / "a.jpg") as written:
        assert written.size == (8, 6)
    assert not (tmp_path / "out" / "masks").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear Kevin")
    with pytest.raises(UserError, match="not empty"):
        write_photos(Scenes(classes=2, photos=2, size=32), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_empty_folder_is_filled(tmp_path):
    write_photos(Scenes(classes=2, photos=2, size=32), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boxes.csv", "masks", "parts", "photos"]


@pytest.mark.parametrize(
    "below",
    ["", "scenes"],
)
def test_a_file_is_no_folder_to_write_to(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(UserError, match="file"):
        write_photos(Scenes(classes=2, photos=2, size=32), file / below)
    assert file.read_text() == "mine"


def test_a_console_shows_no_more_than_a_bar(tmp_path):
    output = io.StringIO()
    write_photos(Scenes(classes=2, photos=2, size=32), tmp_path, reporter=RichReporter(Console(file=output)))
    assert output.getvalue().strip() == ""


def test_the_folder_that_was_written_is_not_taken_for_classes(tmp_path):
    write_photos(Scenes(classes=2, photos=2, size=32), tmp_path)
    with pytest.raises(UserError, match="photos"):
        PhotoFolder(tmp_path)
    assert PhotoFolder(tmp_path / "photos").classes == ["class-00", "class-01"]
