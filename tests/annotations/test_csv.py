"""Tables of boxes: with a class or without, wherever the photos are. (tests/data/test_folders.py has the bad ones.)"""

import csv
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, Object
from casmap.data.folders import PhotoFolder
from casmap.evaluation.table import evaluate
from casmap.reporting import Reporter


@pytest.fixture
def flat(tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        PIL.Image.new("L", (20, 10)).save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def test_a_class_is_read_where_the_table_has_one(flat):
    table = flat.parent / "boxes.csv"
    table.write_text("class,file,xmin,ymin,xmax,ymax\ncat,photos/a.png,1,2,3,4\ndog,photos/b.png,1,2,3,4\n")
    photos = PhotoFolder(flat, table)
    assert photos.classes == ["cat", "dog"]
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


def test_evaluate_warns_of_the_first_row_that_matches_no_photo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("cat/a.png", "dog/b.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)).save(f"photos/{name}")
    rows = [f"{name},1,2,9,9\n" for name in ("cat/a.png", "cat/gone.png", "dog/b.png", "dog/gone.png")]
    (tmp_path / "boxes.csv").write_text("file,xmin,ymin,xmax,ymax\n" + "".join(rows))
    warnings, reporter = [], Reporter()
    reporter.warning = warnings.append
    evaluate("photos", boxes="boxes.csv", unseen=True, reporter=reporter)
    expected = "Annotations that match no photo in photos: 2, the first cat/gone.png: boxes.csv, row 3."
    assert warnings[:1] == [expected]


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".txt", ""])
def test_any_file_may_be_a_table(flat, suffix):
    table = flat.parent / f"boxes{suffix}"
    table.write_text("file,xmin,ymin,xmax,ymax,class\nphotos/a.png,1,2,3,4,cat\n")
    assert PhotoFolder(flat, table).names == ["a.png"]


def test_files_are_named_from_the_tables_folder(flat, monkeypatch):
    monkeypatch.chdir(flat)
    photo = Labelled(Path("a.png"), "a.png", 20, 10, (Object("a, b", (1, 2, 3, 4), [], {}, 4, 1.0),))
    path = FORMATS["csv"].write([photo], ["a, b"], Path("../out"), WriteOptions())
    (row,) = csv.DictReader(path.open())
    assert row == {"file": "../photos/a.png", "xmin": "1", "ymin": "2", "xmax": "3", "ymax": "4", "class": "a, b"}


def test_a_name_that_is_no_unicode_breaks_nothing(tmp_path):
    photo = Labelled(tmp_path / "\udcff.png", "\udcff.png", 20, 10, (Object("cat", (1, 2, 3, 4), [], {}, 4, 1.0),))
    for form in ("csv", "wsol"):
        assert "\\xff.png" in FORMATS[form].write([photo], ["cat"], tmp_path / form, WriteOptions()).read_text()
