"""Two writers in one output folder lost data without an error; the second is refused now."""

import subprocess
import sys
from pathlib import Path

import pytest

HOLD = """
import sys
from pathlib import Path
from casmap.io.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
COMMANDS = {
    "extract": ["extract", "photos", "--out", "out"],
    "extract --ray": ["extract", "photos", "--ray", "--out", "out"],
    "annotate": ["annotate", "photos", "--format", "coco", "--out", "out"],
    "check": ["check", "photos", "--out", "out"],
    "scenes": ["scenes", "out", "--options", "photos=4,classes=2,size=32"],
    "data shard": ["data", "shard", "photos", "out"],
    "study": ["study", "evidence", "--out", "out"],
    "study figure1": ["study", "figure1", "--backbone", "test_resnet", "--classes", "2", "--size", "32", "--out", "."],
    "train": ["train", "scenes:photos=4,classes=2,size=32", "--recipe", "quick", "--size", "32", "--first-steps", "1",
              "--steps", "1", "--out", "out"],
}  # fmt: skip


def casmap(*words: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "casmap", *words], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    assert casmap("scenes", "made", "--options", "photos=4,classes=2,size=64", folder=folder).returncode == 0
    (folder / "made" / "photos").rename(folder / "photos")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_second_writer_is_refused_and_nothing_changes(work, command) -> None:
    out = work / ("figure1" if command == "study figure1" else "out")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        done = casmap(*COMMANDS[command], folder=work)
        assert done.returncode == 2
        assert f"{out.name} is in use by process {holder.pid} on" in " ".join(done.stderr.split())
        assert [path.name for path in out.iterdir()] == [".casmap.lock"]
    finally:
        holder.communicate()
    assert not out.exists()


def test_of_two_extractions_at_the_same_time_every_mask_has_its_line(work) -> None:
    sides = [["photos/class-00"], ["photos/class-01"]]
    both = [
        subprocess.Popen([sys.executable, "-m", "casmap", "extract", *one, "--out", "maps"], cwd=work,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for one in sides
    ]  # fmt: skip
    codes = [process.wait() for process in both]
    assert set(codes) <= {0, 2}
    assert 0 in codes
    for code, one in zip(codes, sides, strict=True):
        if code:
            assert casmap("extract", *one, "--out", "maps", folder=work).returncode == 0
    assert len((work / "maps" / "boxes.jsonl").read_text().splitlines()) == 4
    assert len(list((work / "maps").glob("*-mask.png"))) == 4
