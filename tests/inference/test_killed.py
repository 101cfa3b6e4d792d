"""A killed extraction: the same command again gives exactly the folder of a run that was not interrupted."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import cv2
import numpy as np
import onnxruntime  # noqa: F401 (loaded here, so that the forked processes need not load it)
import pytest

from casmap.errors import UserError
from casmap.inference.folder import extract
from casmap.inference.map_folder import MapFolder
from casmap.io.images import encode_jpeg
from casmap.io.journal import JOURNAL, Entry, read_journal
from casmap.io.outputs import map_files, read_boxes
from casmap.reporting import Reporter

PHOTOS = 7
WATCHED = {"open", "os.rename", "os.remove"}  # every step at which the state of a folder changes


def photos_in(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(PHOTOS):
        coarse = np.random.default_rng(number).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        (folder / f"{number}.jpg").write_bytes(encode_jpeg(cv2.resize(coarse, (48, 40))))
    (folder / "3.jpg").write_bytes(b"no photo")


def run(out: Path, options: dict, kill_at: int = 0) -> tuple[int, int]:
    """Extract in a process of its own and kill it at a step; returns how it ended, and its steps."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        steps = 0

        def watch(event: str, arguments: tuple) -> None:
            nonlocal steps
            if event in WATCHED and isinstance(arguments[0], str) and f"{out}/" in arguments[0]:
                steps += 1
                if steps == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            extract(out.parent / "photos", out=out, batch=2, **options)
            os.write(writing, json.dumps(steps).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    return os.waitpid(child, 0)[1], int(said or 0)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def points(steps: int, long: bool) -> list[int]:
    """The steps at which to kill: all, or a few; the number of steps differs by a few between two runs."""
    return list(range(1, steps + 1)) if long else sorted({1, 2, *range(5, steps, max(1, steps // 9)), steps - 1})


@pytest.mark.parametrize("case", ["new", "again with other options", "beside the photos"])
def test_the_same_command_after_a_kill_gives_the_folder_of_an_uninterrupted_run(tmp_path, case, long):
    work, start = tmp_path / "work", tmp_path / "start"
    out = work / ("photos" if case == "beside the photos" else "maps")
    photos_in(work / "photos")
    if case == "again with other options":
        assert run(out, {"views": ["mask", "overlay", "masked-in"]})[0] == 0
    options = {"alpha": 1.5} if case == "again with other options" else {}
    shutil.copytree(work, start)
    ended, steps = run(out, options)
    expected = content(work)
    assert ended == 0
    assert steps > 20
    assert len(read_boxes(out / "boxes.jsonl")) == PHOTOS - 1
    resumed = 0
    for step in points(steps, long):
        shutil.rmtree(work)
        shutil.copytree(start, work)
        if os.WIFSIGNALED(run(out, options, kill_at=step)[0]):
            resumed += (out / JOURNAL).exists()
            images = {path for path in out.iterdir() if path.suffix in (".png", ".jpg") and path.name[0] != "."}
            assert {path for path in images if "-" in path.name} <= map_files(out)  # no map is taken for a photo
        assert run(out, options)[0] == 0
        assert content(work) == expected, step
    assert resumed > 3


def test_a_run_continues_only_what_has_not_changed(tmp_path, monkeypatch):
    out, photos = tmp_path / "maps", tmp_path / "photos"
    photos_in(photos)
    steps = run(out, {})[1]
    shutil.rmtree(out)
    assert os.WIFSIGNALED(run(out, {}, kill_at=steps * 3 // 4)[0])
    finished = {Path(json.loads(text)["line"]["photo"]).stem for text in (out / JOURNAL).read_text().splitlines()}
    assert {"0", "1"} <= finished
    (photos / "0.jpg").write_bytes((photos / "6.jpg").read_bytes())  # so its batch, 0 and 1, is repeated
    (out / "5-mask.png").unlink(missing_ok=True)
    opened = []
    from casmap.inference.mapper import SaliencyMapper

    whole_map = SaliencyMapper.map

    def counted(self, sources, **options):
        opened.extend(source.stem for source in sources)
        return whole_map(self, sources, **options)

    monkeypatch.setattr(SaliencyMapper, "map", counted)
    told: list[str] = []
    listening = type("Listening", (Reporter,), {"message": lambda self, text: told.append(text)})()
    done = extract(photos, out=out, batch=2, reporter=listening)
    kept = PHOTOS - len(opened)
    assert told == ([f"Continuing a stopped run: {kept} of {PHOTOS} maps exist."] if kept else [])
    assert {"0", "1", "2", "3", "4", "5", "6"} - finished <= set(opened)
    assert {"0", "1"} <= set(opened)  # changed
    assert {"2", "3"} <= set(opened)  # 3 cannot be read, so it is reported again
    assert (done.written, len(done.skipped)) == (PHOTOS - 1, 1)
    assert not (out / JOURNAL).exists()
    assert (out / "5-mask.png").exists()
    opened.clear()
    extract(photos, out=out, batch=2)
    assert len(opened) == PHOTOS  # a complete run is repeated, not continued


@pytest.mark.parametrize("options", [{"edges": "smooth"}, {"threshold": 0.4}, {"alpha": 1.0}])
def test_a_run_with_other_edges_or_another_threshold_starts_anew(tmp_path, options):
    out, photos = tmp_path / "maps", tmp_path / "photos"
    photos_in(photos)
    steps = run(out, {})[1]
    shutil.rmtree(out)
    assert os.WIFSIGNALED(run(out, {}, kill_at=steps * 3 // 4)[0])
    told: list[str] = []
    listening = type("Listening", (Reporter,), {"message": lambda self, text: told.append(text)})()
    assert extract(photos, out=out, batch=2, reporter=listening, **options).written == PHOTOS - 1
    assert told == []
    extract(photos, out=tmp_path / "new", batch=2, **options)
    assert content(out) == content(tmp_path / "new")


def test_a_planted_journal_changes_no_other_file(tmp_path):
    out, mine = tmp_path / "maps", tmp_path / "mine.png"
    photos_in(tmp_path / "photos")
    out.mkdir()
    mine.write_text("mine")
    (out / "own.txt").write_text("mine")
    (out / ".x~01234567.png").write_text("planted")
    line = {"photo": "0.jpg", "folder": str(tmp_path / "photos"), "name": "0"}
    entries = [
        {"key": "", "files": {"../mine.png": "0-mask.png"}, "stale": [], "line": line},
        {"key": "", "files": {".x~01234567.png": "../mine.png"}, "stale": [], "line": line},
        {"key": "", "files": {".x~01234567.png": "0-mask.png"}, "stale": ["own.txt", "../mine.png"], "line": line},
        {"key": "", "files": {"own.txt": "0-mask.png"}, "stale": [], "line": line},
        [],
        {"line": 7},
    ]
    (out / JOURNAL).write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"half')
    extract(tmp_path / "photos", out=out)
    assert mine.read_text() == (out / "own.txt").read_text() == "mine"
    assert not list(out.glob(".*"))


def test_a_map_never_replaces_a_photo(tmp_path):
    photos = tmp_path / "photos"
    photos_in(photos)
    shutil.copy(photos / "1.jpg", photos / "0-mask.png")
    before = content(photos)
    for _ in range(2):
        assert extract(photos, out=photos).written == PHOTOS
    after = content(photos)
    assert {name: after[name] for name in before} == before
    assert "photos-0-mask.png" in after


def test_a_map_never_replaces_a_file_that_is_not_its_own(tmp_path):
    photos = tmp_path / "photos"
    photos_in(photos)
    (photos / "1-mask.png").write_bytes(b"drawn by hand")
    extract(str(photos / "*.jpg"), out=photos)
    assert (photos / "1-mask.png").read_bytes() == b"drawn by hand"
    assert (photos / "photos-1-mask.png").exists()


@pytest.mark.parametrize("planted", ["[" * 200_000, '{"line": ' * 50_000, '{"key": "torn'])
def test_a_journal_of_others_is_no_harm(tmp_path, planted):
    photos, out = tmp_path / "photos", tmp_path / "maps"
    photos_in(photos)
    out.mkdir()
    for folder in (photos, out):
        (folder / JOURNAL).write_text(planted)
    assert extract(photos, out=out).written == PHOTOS - 1
    assert not (out / JOURNAL).exists()


def test_after_an_incomplete_line_every_map_has_an_entry(tmp_path):
    out = tmp_path / "maps"
    out.mkdir()
    photos_in(tmp_path / "photos")
    (out / JOURNAL).write_text('{"key": "torn')
    maps = MapFolder(out)
    photo = tmp_path / "photos" / "1.jpg"
    maps.plan([photo], photo.parent, 2, "options")
    (out / ".1-mask~01234567.png").write_bytes(b"mask")
    line = {"photo": "1.jpg", "folder": str(photo.parent), "name": "1"}
    maps.keep([Entry(line, "key", {".1-mask~01234567.png": "1-mask.png"})])
    maps.close(stopped=True)
    assert [entry.photo for entry in read_journal(out)] == [str(photo)]
    assert list(read_boxes(out / "boxes.jsonl")) == [str(photo)]


def test_a_full_disk_leaves_no_temporary_files(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise UserError("Cannot write the journal: No space left on device.")

    photos_in(tmp_path / "photos")
    monkeypatch.setattr("casmap.io.journal.append", full)
    with pytest.raises(UserError, match="No space left"):
        extract(tmp_path / "photos", out=tmp_path / "maps", batch=2)
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["boxes.jsonl"]
