"""Every command with file names that are not text, that control the terminal, or that are as long as a name may be."""

import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from casmap.annotations.format import FORMATS
from casmap.data.folders import PhotoFolder
from casmap.io.images import encode_png
from casmap.io.outputs import read_boxes

CLASSES = (b"caf\xe9", b"dog\x1b[31m")
PHOTOS = [
    os.path.join(one, photo % number)
    for number, one in enumerate(CLASSES)
    for photo in (
        b"plain%d.png",
        b"b\xff%d.png",
        b"title%d\x1b]0;owned\x07.png",
        b"line\nbreak%d.png",
        b"%d" + b"x" * 249 + b".png",
    )
]
READ = {"coco": "annotations.json", "label-studio": "tasks.json", "cvat": "annotations.xml", "csv": "boxes.csv",
        "voc": "Annotations"}  # fmt: skip
TINY = ["--recipe", "quick", "--size", "32", "--first-steps", "1", "--steps", "1", "--second-stage-steps", "0",
        "--batch", "2", "--held-out", "0"]  # fmt: skip


@pytest.fixture
def photos(tmp_path) -> Path:
    for number, name in enumerate(PHOTOS):
        path = os.path.join(os.fsencode(tmp_path), b"in", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        coarse = np.random.default_rng(number).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        with open(path, "wb") as file:
            file.write(encode_png(cv2.resize(coarse, (48, 40))))
    return tmp_path / "in"


def quiet(done, code: int = 0):
    """The command ended as it should, and neither a title nor a colour of a name reached the terminal."""
    assert done.code == code, done.complained
    assert "Traceback" not in done.complained
    assert "\x1b" not in done.said + done.complained
    return done


def test_extract_gives_every_photo_its_maps_and_finds_them_again(photos, casmap, mapping, tmp_path, files):
    for _ in range(2):
        quiet(casmap("extract", "in", "--mapping", mapping, "--out", "maps", "--everything"))
    lines = read_boxes(tmp_path / "maps" / "boxes.jsonl")
    assert sorted(map(os.fsencode, lines)) == sorted(os.path.join(os.fsencode(photos), name) for name in PHOTOS)
    texts = (tmp_path / "maps" / "boxes.jsonl").read_text().splitlines()
    json.dumps(list(map(json.loads, texts)), ensure_ascii=False).encode()  # no other program stumbles over them
    found = files(tmp_path / "maps")
    assert len(found) == 10 * 6 + 1
    assert all(name.isprintable() for name in found)


@pytest.mark.parametrize("form", FORMATS.names)
def test_every_format_is_written_and_finds_the_photos_again(photos, casmap, mapping, tmp_path, form):
    quiet(casmap("annotate", "in", "--mapping", mapping, "--format", form, "--out", "out", "--alpha", "0.5"))
    boxes = tmp_path / "out" / READ.get(form, "")
    read = PhotoFolder(photos, boxes=boxes)
    assert len(read) == 10
    assert [os.fsencode(name) for name in read.classes] == sorted(CLASSES)
    assert all(read.annotation(index) is not None for index in range(10)), form
    assert read.problems == []


def test_training_checking_evaluating_and_correcting(photos, casmap, tmp_path):
    quiet(casmap("train", "in", *TINY, "--out", "run"))
    quiet(casmap("classifier", "in", *TINY[:6], "--out", "first"))
    mapping = "run/mapping.safetensors"
    quiet(casmap("check", "in", "--mapping", mapping))
    quiet(casmap("annotate", "in", "--mapping", mapping, "--format", "coco", "--classes", "predicted", "--out", "p"))
    quiet(casmap("annotate", "in", "--mapping", mapping, "--format", "coco", "--alpha", "0", "--out", "c"))
    quiet(casmap("evaluate", "in", "--mapping", mapping, "--boxes", "c/annotations.json", "--json", "e.json"))
    quiet(casmap("correct", "in", "--mapping", mapping, "--boxes", "c/annotations.json", "--steps", "1"))
    quiet(casmap("export", mapping))
    quiet(casmap("data", "shard", "in", "shards"))
    quiet(casmap("train", "shards", *TINY, "--out", "from-shards"))
    (photos / os.fsdecode(CLASSES[0]) / os.fsdecode(b"no\x1b]0;photo\xff.png")).write_bytes(b"no photo")
    done = quiet(casmap("data", "check", "in", "--json", "report.json"), code=1)
    assert "no\\x1b]0;photo\\xff.png" in done.said
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["classes"]) == {"caf\\xe9", "dog\\x1b[31m"}
    done = quiet(casmap("extract", "in", "--mapping", mapping, "--alpha", "1"), code=1)
    assert done.complained.count("\n") == 1


def test_names_reach_run_log_escaped(photos, casmap, tmp_path):
    for one in CLASSES:
        (photos / os.fsdecode(one) / "broken\n\x1b[2J.png").write_bytes(b"no photo")
    quiet(casmap("train", "in", *TINY, "--out", "run", "--unreadable", "0.9"))
    log = (tmp_path / "run" / "run.log").read_text()
    assert "broken\\x0a\\x1b[2J.png" in log
    assert all(line.isprintable() for line in log.splitlines())


def test_an_error_names_a_folder_that_is_not_text(casmap):
    assert "caf\\xe9" in casmap("extract", os.fsdecode(b"caf\xe9\x1b[31m")).sentence()


def test_training_writes_through_no_planted_link(photos, casmap, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.log").symlink_to(tmp_path / "mine.txt")
    quiet(casmap("train", "in", *TINY, "--out", "run"))
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "run" / "run.log").is_symlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tensorboard").symlink_to(tmp_path / "mine")
    assert "other/tensorboard is a link" in casmap("train", "in", *TINY, "--out", "other").sentence()
    assert not list((tmp_path / "mine").iterdir())
