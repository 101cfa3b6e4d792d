"""One writer for each folder, tried with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from casmap.errors import UserError
from casmap.io.lock import LOCK, locked

HOLD = """
import sys
from pathlib import Path
from casmap.io.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_holds_the_folder(tmp_path) -> None:
    process = holder(tmp_path)
    message = f"is in use by process {process.pid} on .*: wait until it ends, or choose"
    with pytest.raises(UserError, match=message), locked(tmp_path):
        pass
    process.communicate()
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert not (tmp_path / LOCK).exists()


def test_a_killed_process_holds_nothing(tmp_path) -> None:
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with locked(tmp_path):
        pass


def test_of_many_that_come_and_go_only_one_is_ever_inside(tmp_path) -> None:
    """Each adds one to a number in a file, read and written apart, as often as it gets in."""
    turns = """
import sys, time
from pathlib import Path
from casmap.errors import UserError
from casmap.io.lock import locked
folder, done = Path(sys.argv[1]), 0
while done < 40:
    try:
        with locked(folder):
            number = int((folder / "number").read_text())
            time.sleep(0.0005)
            (folder / "number").write_text(str(number + 1))
            done += 1
    except UserError:
        pass
"""
    (tmp_path / "number").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", turns, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert (tmp_path / "number").read_text() == "160"


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="Cannot write to"), locked(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_damaged_lock_file_is_no_reason_to_fail(tmp_path) -> None:
    (tmp_path / LOCK).write_text("{not json")
    with locked(tmp_path):
        pass
