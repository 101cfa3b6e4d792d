"""`casmap data check`: the layout, the counts, and every problem with its file."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import PIL.Image
import pytest

from casmap.annotations.types import Kind
from casmap.cli.tables import SHOWN
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.validate import annotation_warnings, check
from casmap.errors import UserError
from casmap.evaluation.evaluate import annotated_indices
from casmap.reporting import Reporter

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "FORCE_COLOR"} | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}


def casmap(*arguments, cwd):
    start = "from casmap.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments], capture_output=True, text=True, env=ENVIRONMENT, cwd=cwd
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def photo(path, seed, width=16, height=12):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    PIL.Image.fromarray(pixels).save(path)


@pytest.fixture
def pets(tmp_path):
    """Five photos with boxes, three of them cats."""
    for number in range(5):
        photo(tmp_path / "pets" / ("cat", "dog")[number % 2] / f"{number}.png", number, width=16 + number)
    rows = [f"pets/{('cat', 'dog')[number % 2]}/{number}.png,0,0,8,12" for number in range(4)]
    (tmp_path / "boxes.csv").write_text("\n".join(["file,xmin,ymin,xmax,ymax", *rows, ""]))
    return tmp_path / "pets"


def test_a_good_folder_is_counted(pets):
    report = check(PhotoFolder(pets, pets.parent / "boxes.csv"))
    assert report.fine
    assert report.classes == {"cat": 3, "dog": 2}
    assert report.photos == 5
    assert report.sizes == {"smallest": (16, 12), "median": (18, 12), "largest": (20, 12)}
    assert report.with_boxes == 4
    assert report.box_share == pytest.approx(np.mean([8 / width for width in (16, 17, 18, 19)]))
    assert report.with_masks == 0
    assert report.notes == {Kind.NO_ANNOTATION: ["cat/4.png"]}


def test_boxes_that_overlap_cover_their_pixels_once(pets):
    table = pets.parent / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\n" + "pets/cat/0.png,0,0,8,12\npets/cat/0.png,4,0,12,99\n")
    assert check(PhotoFolder(pets, table)).box_share == pytest.approx(12 / 16)


def test_without_annotations_none_are_reported_missing(pets):
    report = check(PhotoFolder(pets))
    assert report.fine
    assert report.notes == {}


def test_annotations_that_match_no_photo_are_a_problem(pets, tmp_path):
    (tmp_path / "masks").mkdir()
    (tmp_path / "config.xml").write_text('<View><Image name="image" value="$image"/></View>')
    report = check(PhotoFolder(pets, tmp_path / "config.xml", tmp_path / "masks"))
    assert list(report.problems) == [Kind.EMPTY_SOURCE]
    assert len(report.problems[Kind.EMPTY_SOURCE]) == 2
    assert all(
        what.endswith(": do its file names match those of the photos?") for what in next(iter(report.problems.values()))
    )
    assert report.notes == {}


def test_boxes_that_are_all_left_out_are_named_with_the_reason(pets):
    table = pets.parent / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\npets/cat/0.png,1,x,8,12\npets/cat/2.png,8,0,1,12\n")
    report = check(PhotoFolder(pets, table))
    assert report.problems[Kind.EMPTY_SOURCE] == ["boxes from a CSV file: every box or mask was left out, see below"]
    assert report.problems[Kind.BOX_SKIPPED][0] == "cat/0.png: the box is not four numbers"
    assert annotation_warnings(PhotoFolder(pets, table)) == [
        "Boxes left out: 2, the first cat/0.png: the box is not four numbers."
    ]
    with pytest.raises(
        UserError, match=r"No photo has a box .* Boxes left out: 2, the first cat/0.png: the box is not"
    ):
        annotated_indices(PhotoFolder(pets, table))
    said = casmap("data", "check", "pets", "--boxes", "boxes.csv", cwd=pets.parent).stdout
    assert "Problem: 1 source(s) of annotations without a box or mask for any photo" in said


def test_a_class_that_resembles_a_class_folder_is_a_note(pets):
    table = pets.parent / "boxes.csv"
    rows = ["pets/cat/0.png,0,0,8,12,catt", "pets/cat/2.png,0,0,8,12,cat", "pets/dog/1.png,0,0,8,12,tabby"]
    table.write_text("\n".join(["file,xmin,ymin,xmax,ymax,class", *rows, ""]))
    report = check(PhotoFolder(pets, table))
    assert report.fine
    assert report.notes[Kind.CLASS_TYPO] == ["cat/0.png: catt (did you mean cat?)"]
    sentence = "1 box has a class that is no class folder: catt (did you mean cat?)."
    assert annotation_warnings(PhotoFolder(pets, table)) == [sentence]


def test_every_problem_is_reported(pets, tmp_path):
    (pets / "cat" / "0.png").write_bytes(b"not an image")
    (pets / "cat" / "twin.png").write_bytes((pets / "cat" / "2.png").read_bytes())
    (pets / "cat" / "stray.png").write_bytes((pets / "dog" / "1.png").read_bytes())
    for number, shape, shade in ((2, (12, 18), 0), (4, (3, 3), 255)):
        (tmp_path / "masks" / "cat").mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(np.full(shape, shade, np.uint8)).save(tmp_path / "masks" / "cat" / f"{number}.png")
    with open(tmp_path / "boxes.csv", "a") as file:
        file.write("pets/dog/1.png,9,9,1,1\npets/dog/3.png,-9,0,99,12\npets/gone.png,1,1,2,2\n")
    report = check(PhotoFolder(pets, tmp_path / "boxes.csv", tmp_path / "masks"))
    names = {kind: [name.partition(":")[0] for name in found] for kind, found in report.problems.items()}
    assert names == {
        Kind.UNREADABLE: [f"{pets}/cat/0.png is not an image in a supported format (JPEG, PNG, GIF, BMP, "
                          "PPM, TIFF, WEBP, JPEG2000, AVIF)."],
        Kind.NO_PHOTO: ["pets/gone.png"],
        Kind.BOX_SKIPPED: ["dog/1.png"],
        Kind.BOX_OUTSIDE: ["dog/3.png"],
        Kind.MASK_EMPTY: ["cat/2.png"],
        Kind.MASK_SIZE: ["cat/4.png"],
        Kind.DUPLICATES_ACROSS_CLASSES: ["cat/stray.png = dog/1.png"],
    }  # fmt: skip
    assert report.notes[Kind.DUPLICATES] == ["cat/2.png = cat/twin.png"]
    assert not report.fine


def test_photos_of_a_kind_that_cannot_be_opened_are_named_and_left_out(pets):
    (pets / "cat" / "IMG_1.CR3").write_bytes(b"raw")
    (pets / "cat" / "notes.txt").write_text("no photo")
    report = check(PhotoFolder(pets))
    assert report.photos == 5
    assert report.problems == {Kind.UNREADABLE: ["cat/IMG_1.CR3: unsupported file format"]}


def test_progress_advances_with_every_photo(pets):
    class Counting(Reporter):
        @contextmanager
        def progress(self, label, total, start=0, lasting=False):
            calls.append(total)
            yield lambda: calls.append(1)

    calls = []
    check(PhotoFolder(pets), reporter=Counting())
    assert calls == [5, 1, 1, 1, 1, 1]


def test_scenes_have_no_problems():
    report = check(Scenes(classes=3, photos=7, size=32))
    assert report.fine
    assert (report.with_boxes, report.with_masks, report.with_parts) == (7, 7, 7)


# ---------------------------------------------------------------------------------------------- the command


def test_a_good_folder_gives_exit_code_0(pets, tmp_path):
    done = casmap("data", "check", "pets", "--boxes", "boxes.csv", "--json", "out/all.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("class folders", "CSV", "5", "fewest photos: dog (2)", "16 x 12", "No problems found"):
        assert words in done.stdout
    report = json.loads((tmp_path / "out" / "all.json").read_text())
    assert report["fine"] is True
    assert report["classes"] == {"cat": 3, "dog": 2}


def test_problems_give_exit_code_1_and_all_names_are_in_the_json(pets, tmp_path):
    for number in range(SHOWN + 5):
        (pets / "cat" / f"broken [{number:02d}].png").write_bytes(b"not an image")
    done = casmap("data", "check", "pets", "--json", "all.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"{SHOWN + 5} photos that cannot be opened" in done.stdout
    assert "broken [09].png" in done.stdout
    assert "broken [10].png" not in done.stdout
    assert "and 5 more" in done.stdout
    assert len(json.loads((tmp_path / "all.json").read_text())["problems"][Kind.UNREADABLE]) == SHOWN + 5


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["nowhere"], "nowhere"), (["pets", "--boxes", "no.csv"], "no.csv"), (["pets", "--split", "val"], "val")],
    ids=" ".join,
)
def test_a_user_error_is_one_sentence_and_exit_code_2(pets, tmp_path, arguments, word):
    done = casmap("data", "check", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("casmap: ")
    assert done.stderr.count("\n") == 1
    assert word in done.stderr


def test_scenes_can_be_checked(tmp_path):
    done = casmap("data", "check", "scenes:photos=4,classes=2,size=32", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No problems found" in done.stdout
