"""A hostile photo among others is skipped with a sentence of its own; the others are written."""

import errno
import json
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.errors import UserError
from casmap.inference.folder import extract
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.opener import Opener
from casmap.tools.annotate import annotate

HONEST = 12


@pytest.fixture
def folder(tmp_path) -> Path:
    """Honest photos, in more than one batch."""
    noise = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(HONEST):
        PIL.Image.fromarray(noise.integers(0, 255, (36, 48, 3), np.uint8)).save(tmp_path / f"photos/{number:02}.jpg")
    return tmp_path / "photos"


def names(out: Path) -> list[str]:
    return [json.loads(line)["name"] for line in (out / "boxes.jsonl").read_text().splitlines()]


ALL = [f"{number:02}" for number in range(HONEST)]
LIMITED = """
import functools
import casmap.inference.folder as folder
folder.Opener = functools.partial(folder.Opener, cpu_seconds=1)
from casmap.cli.main import main
main()
"""


def test_the_command_skips_hostile_photos_and_writes_the_others(folder, fresh, scan_bomb, thin_png, tmp_path) -> None:
    (folder / "03-bomb.jpg").write_bytes(scan_bomb)
    (folder / "05-thin.png").write_bytes(thin_png)
    done = fresh("extract", folder, "--out", tmp_path / "maps", start=LIMITED)
    assert done.code == 1
    assert done.complained.splitlines() == [
        f"casmap: skipped: {folder}/03-bomb.jpg takes more than 1 s of CPU time to open.",
        f"casmap: skipped: {folder}/05-thin.png has a side of more than 65,500 pixels, which is the limit.",
    ]
    assert names(tmp_path / "maps") == ALL


def test_one_hostile_photo_alone_is_one_sentence(fresh, thin_png, tmp_path) -> None:
    (tmp_path / "thin.png").write_bytes(thin_png)
    done = fresh("extract", tmp_path / "thin.png", "--out", tmp_path / "maps")
    assert "No photo could be read. The first error: " in done.sentence()


def test_annotate_skips_hostile_photos_as_well(folder, mapping, scan_bomb, tmp_path, monkeypatch) -> None:
    (folder / "bomb.jpg").write_bytes(scan_bomb)
    monkeypatch.setattr("casmap.tools.annotate.Opener", partial(Opener, cpu_seconds=1))
    done = annotate(folder, format="csv", mapping=mapping, out=tmp_path / "labels")
    assert len(done.photos) == HONEST
    assert done.skipped == [f"{folder}/bomb.jpg takes more than 1 s of CPU time to open."]


def test_a_photo_whose_decoder_crashes_is_skipped(folder, mapping, scan_bomb, tmp_path, workers_of) -> None:
    """The crash is a kill from outside, of the process that uses most time."""
    (folder / "crash.jpg").write_bytes(scan_bomb)
    over = threading.Event()

    def seconds(pid: int) -> float:
        try:
            user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:
            return 0.0
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def kill() -> None:
        while not over.is_set():
            busy = [pid for pid in workers_of(os.getpid()) if seconds(pid) > 2]
            for pid in busy:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        done = extract(folder, mapping=mapping, out=tmp_path / "maps")
    finally:
        over.set()
        killing.join()
    ended = "cannot be opened: the process that decoded it ended (SIGKILL)."
    assert done.skipped == [f"{folder}/crash.jpg {ended}"]
    assert names(tmp_path / "maps") == ALL


def test_no_process_is_left(folder, mapping, tmp_path, workers_of) -> None:
    before = workers_of(os.getpid())
    extract(folder, mapping=mapping, out=tmp_path / "maps")
    assert workers_of(os.getpid()) == before


@pytest.mark.parametrize("error", [MemoryError(), ValueError("an unexpected value"), OSError(5, "Input/output error")])
def test_a_failure_after_opening_is_the_photos_own(folder, mapping, tmp_path, monkeypatch, error) -> None:
    view = SaliencyMap.view

    def failing(self, kind, *threshold):
        if self.name == "04":
            raise error
        return view(self, kind, *threshold)

    monkeypatch.setattr(SaliencyMap, "view", failing)
    done = extract(folder, mapping=mapping, out=tmp_path / "maps")
    (sentence,) = done.skipped
    assert sentence == f"{folder}/04.jpg cannot be processed: {str(error) or 'MemoryError'}."
    assert names(tmp_path / "maps") == [name for name in ALL if name != "04"]


def test_a_failure_while_resizing_is_the_photos_own(folder, mapping, monkeypatch) -> None:
    mapper = SaliencyMapper.load(mapping)

    def failing(image, *_):
        if image.shape[0] == 36:
            raise MemoryError
        return np.zeros((64, 64, 3), np.uint8)

    monkeypatch.setattr("casmap.inference.mapper.resize", failing)
    bad, good = mapper.map([folder / "00.jpg", np.zeros((9, 9, 3), np.uint8)])
    assert str(bad) == f"{folder}/00.jpg cannot be processed: MemoryError."
    assert good.width == 9


def test_a_file_that_cannot_be_written_for_its_name_is_the_photos_own(folder, mapping, tmp_path) -> None:
    extract(folder, mapping=mapping, out=tmp_path / "maps")
    (tmp_path / "maps" / "04-mask.png").unlink()
    (tmp_path / "maps" / "04-mask.png").mkdir()
    done = extract(folder, mapping=mapping, out=tmp_path / "maps")
    (sentence,) = done.skipped
    assert sentence == f"Cannot write {tmp_path}/maps/04-mask.png: Is a directory."
    assert names(tmp_path / "maps") == [*(name for name in ALL if name != "04"), "04"]  # the last is its earlier line


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_an_output_folder_that_cannot_be_written_ends_the_run(folder, mapping, tmp_path, monkeypatch, code) -> None:
    replace = os.replace

    def failing(file, target):
        if Path(target).name == "04-mask.png":
            raise OSError(code, os.strerror(code))
        return replace(file, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(UserError, match=f"Cannot write to {tmp_path}/maps: {os.strerror(code)}"):
        extract(folder, mapping=mapping, out=tmp_path / "maps")
