"""Extraction on Ray: every photo has exactly one row, even if workers are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from pycocotools import mask as run_lengths

from casmap import SaliencyMapper
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.inference.components import PAPER, Threshold
from casmap.inference.mapper import SHIPPED
from casmap.inference.on_ray import OPTIONS, extract_on_ray, options_of, part_file, read_rows
from casmap.io.images import encode_jpeg
from casmap.io.kept_options import keep_options
from casmap.reporting import Reporter

PART, PHOTOS = 10, 240
PROGRAM = f"""
import sys
from pathlib import Path
from casmap.inference.on_ray import extract_on_ray
many = extract_on_ray(sys.argv[1], out=sys.argv[2], workers=2, part={PART})
print(many.written, len(many.skipped))
"""
pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="workers are found in /proc")


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Scenes; one file is truncated."""
    folder = tmp_path_factory.mktemp("photos")
    scenes = Scenes(photos=PHOTOS, size=96)
    for number in range(PHOTOS):
        (folder / f"{number:03}.jpg").write_bytes(encode_jpeg(scenes.image(number)))
    (folder / "007.jpg").write_bytes((folder / "007.jpg").read_bytes()[:200])
    return folder


def begin(photos: Path, out: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"RAY_DISABLE_MEMORY_MONITOR": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", PROGRAM, str(photos), str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def parts_of(out: Path) -> list[Path]:
    return sorted(out.glob("part-*.parquet"))


def workers() -> list[int]:
    """The worker processes of Ray: they have loaded the mapping's runtime."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::") and "onnxruntime" in (
                folder / "maps"
            ).read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for_parts(process: subprocess.Popen[str], out: Path, count: int) -> None:
    while len(parts_of(out)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def assert_only_whole_files(out: Path) -> None:
    names = {"parts.json", *(part_file(Path(), number).name for number in range(PHOTOS // PART))}
    assert {path.name for path in out.iterdir()} == names


def test_a_worker_is_killed_and_every_photo_has_one_row(photos, tmp_path) -> None:
    with begin(photos, tmp_path / "maps") as process:
        wait_for_parts(process, tmp_path / "maps", 2)
        victims = workers()
        os.kill(victims[0], signal.SIGKILL)
        said, complained = process.communicate(timeout=240)
    assert process.returncode == 0, complained
    assert said.splitlines()[-1].split() == [str(PHOTOS - 1), "1"]
    rows = list(read_rows(tmp_path / "maps", PHOTOS // PART))
    assert [row["path"] for row in rows] == sorted(str(path.resolve()) for path in photos.iterdir())
    assert [Path(row["path"]).name for row in rows if row["error"] is not None] == ["007.jpg"]
    assert_only_whole_files(tmp_path / "maps")
    found = SaliencyMapper.load()(str(photos / "003.jpg"))
    (row,) = [row for row in rows if row["path"].endswith("003.jpg")]
    assert tuple(row["box"]) == found.box()
    inside = run_lengths.decode({"size": [row["height"], row["width"]], "counts": row["rle"].encode()}).astype(bool)
    assert np.array_equal(inside, found.connected())
    assert row["score"] == pytest.approx(found.mask[inside].mean(), abs=1e-4)


def test_a_second_start_makes_only_the_missing_parts(photos, tmp_path) -> None:
    out = tmp_path / "maps"
    with begin(photos, out) as process:
        wait_for_parts(process, out, 3)
        os.killpg(process.pid, signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in parts_of(out)}
    assert 3 <= len(before) < PHOTOS // PART
    (out / ".part-000000~0a1b2c3d.parquet").write_bytes(b"half of")  # left by a killed worker
    with begin(photos, out) as process:
        said, complained = process.communicate(timeout=240)
    assert process.returncode == 0, complained
    assert said.splitlines()[-1].split() == [str(PHOTOS - 1), "1"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(read_rows(out, PHOTOS // PART))) == PHOTOS
    assert_only_whole_files(out)


def test_another_setting_in_the_same_folder_is_refused(photos, tmp_path) -> None:
    paths, mapping = sorted(photos.iterdir()), photos / "003.jpg"
    kept = tmp_path / OPTIONS
    for _ in range(2):
        keep_options(kept, options_of(paths, mapping, PAPER, "sharp", PART))
    with pytest.raises(UserError, match=r"was started with alpha = 1\.0, not 0\.5: choose another folder \(out\)"):
        keep_options(kept, options_of(paths, mapping, Threshold(0.5), "sharp", PART))
    with pytest.raises(UserError, match=r"was started with alpha = 1\.0, not None: choose another folder \(out\)"):
        keep_options(kept, options_of(paths, mapping, Threshold(), "sharp", PART))
    with pytest.raises(UserError, match="was started with edges = 'sharp', not 'smooth': choose"):
        keep_options(kept, options_of(paths, mapping, PAPER, "smooth", PART))
    with pytest.raises(UserError, match="was started with photos = "):
        keep_options(kept, options_of(paths[1:], mapping, PAPER, "sharp", PART))
    kept.write_text("[]")
    with pytest.raises(UserError, match="is damaged"):
        keep_options(kept, options_of(paths, mapping, PAPER, "sharp", PART))


def test_a_damaged_part_is_a_one_line_error(tmp_path) -> None:
    part_file(tmp_path, 0).write_bytes(b"no parquet")
    with pytest.raises(UserError, match="is damaged: delete it"):
        list(read_rows(tmp_path, 1))


def test_a_wrong_mapping_file_is_rejected_before_the_start(photos, tmp_path) -> None:
    wrong = tmp_path / "wrong.onnx"
    wrong.write_bytes(b"no mapping")
    with pytest.raises(UserError, match=r"wrong\.onnx"):
        extract_on_ray(photos, mapping=wrong, out=tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


def test_a_failed_verdict_is_repeated_before_the_start(photos, tmp_path) -> None:
    model = onnx.load(SHIPPED)
    (kept,) = model.metadata_props
    kept.value = json.dumps(json.loads(kept.value) | {"verdict": {"verdict": "failed", "reasons": ["It misses."]}})
    onnx.save(model, tmp_path / "failed.onnx")
    said = []

    class Noting(Reporter):
        def warning(self, text: str) -> None:
            said.append(text)

    (tmp_path / OPTIONS).write_text("[]")  # ends the run before Ray starts
    with pytest.raises(UserError, match="is damaged"):
        extract_on_ray(photos, mapping=tmp_path / "failed.onnx", out=tmp_path, reporter=Noting())
    assert said == ["This mapping has the verdict failed: It misses."]
