"""Folders that may not be read: a class must not vanish in silence."""

import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest

from casmap.io.images import encode_png

# Without capabilities, the modes of files also apply to root, which still owns Python's own files.
UNPRIVILEGED = """
import ctypes
header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, nothing) == 0
from casmap.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Three classes; a test closes the folder of one, or lets the folder inside of another be listed, not entered."""
    folder = tmp_path_factory.mktemp("work")
    for number, name in enumerate(("ant/1.png", "ant/2.png", "bee/1.png", "bee/in/2.png", "cat/1.png", "cat/2.png")):
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = np.random.default_rng(number).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        path.write_bytes(encode_png(cv2.resize(coarse, (48, 40))))
    return folder


def casmap(work, environment, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", UNPRIVILEGED, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=work)


@pytest.fixture(params=[("cat", 0o000), ("bee/in", 0o600)], ids=["closed", "listed only"])
def closed(request, work):
    path = work / "photos" / request.param[0]
    path.chmod(request.param[1])
    yield request.param[0]
    path.chmod(0o700)


def test_training_and_checking_refuse(work, closed, environment):
    for command in (["train", "photos", "--out", "run"], ["data", "check", "photos"]):
        done = casmap(work, environment, *command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert f"photos/{closed}" in done.stderr
        assert "Permission denied" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (work / "run").exists()


@pytest.mark.parametrize("photos", ["photos", "photos/**/*.png"])
def test_extract_and_annotate_skip_and_report(work, closed, environment, photos):
    for command in (["extract", photos, "--out", "out"], ["annotate", photos, "--format", "csv", "--out", "out"]):
        done = casmap(work, environment, *command)
        assert done.returncode == 1, done.stdout + done.stderr
        assert f"skipped: photos/{closed} is a folder that cannot be read: Permission denied." in done.stderr
        shutil.rmtree(work / "out")


def test_the_error_of_a_later_source_is_its_own(work, closed, environment):
    (work / "empty").mkdir(exist_ok=True)
    done = casmap(work, environment, "extract", "photos", "empty")
    assert done.returncode == 2
    assert done.stderr == "casmap: The folder empty contains no photos.\n"


def test_each_closed_folder_is_reported_once(work, closed, environment):
    done = casmap(work, environment, "extract", "photos", "photos/ant", "photos/**/*.png", "--out", "out")
    shutil.rmtree(work / "out")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.count("is a folder that cannot be read") == 1


def test_a_source_that_cannot_be_read_is_an_error(work, environment):
    (work / "photos" / "cat").chmod(0o000)
    try:
        done = casmap(work, environment, "extract", "photos/cat")
    finally:
        (work / "photos" / "cat").chmod(0o700)
    assert done.returncode == 2
    assert "photos/cat is a folder that cannot be read: Permission denied." in done.stderr
