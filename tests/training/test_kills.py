"""Killed at any moment, or with a full disk: a resumed run ends with the same mapping."""

import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from casmap.training.checkpoints import Checkpoints

TRAIN = [
    sys.executable, "-m", "casmap", "train", "scenes:classes=4,photos=32,size=32", "--recipe", "quick", "--size", "32",
    "--batch", "6", "--first-steps", "120", "--steps", "200", "--period", "9", "--sample-limit", "5", "--threads", "1",
    "--checkpoint-every", "7", "--held-out", "0",
]  # fmt: skip
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
NAMES = ("checkpoint", "classifier-checkpoint")


def finish(out: Path, *more: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRAIN, "--out", str(out), *more], capture_output=True, text=True, env=ENVIRONMENT, timeout=300, **options
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The mapping of a run that was never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    done = finish(out)
    assert done.returncode == 0, done.stderr
    return (out / "mapping.safetensors").read_bytes()


def started(out: Path) -> bool:
    return (out / "recipe.json").exists()


def kill(out: Path, chance: random.Random) -> bool:
    """Start or resume the run and kill it at some moment; returns whether it was still alive."""
    process = subprocess.Popen(
        [*TRAIN, "--out", str(out), *(["--resume"] if started(out) else [])], env=ENVIRONMENT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    steps = len(list(out.glob("*")))
    while process.poll() is None and len(list(out.glob("*"))) <= steps and not started(out):
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 1.0) ** 2 * 9)  # importing takes a while; most of the work is in the first seconds
    process.kill()
    return process.wait() == -9


def test_killed_again_and_again_it_ends_bit_identical(whole, tmp_path, long) -> None:
    chance, deaths, round_ = random.Random(0), 0, 0
    wanted = 20 if long else 2
    while deaths < wanted:
        out = tmp_path / str(round_)
        while deaths < wanted and not (out / "mapping.safetensors").exists():
            deaths += kill(out, chance)
            for name in NAMES:
                Checkpoints(out, name).read()  # raises where none of the two can be read
        done = finish(out, *(["--resume"] if started(out) else []))
        assert done.returncode == 0, done.stderr
        assert (out / "mapping.safetensors").read_bytes() == whole
        left = [path.name for path in out.iterdir() if path.name.startswith(".") or "checkpoint" in path.name]
        assert left == []
        round_ += 1


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_stays(whole, tmp_path) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        [*TRAIN, "--out", str(out)], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (out / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = (out / "checkpoint.safetensors").read_bytes()

    def almost_full() -> None:
        """The system refuses every byte beyond half a checkpoint, as it does on a full disk."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) // 2, len(kept) // 2))

    done = finish(out, "--resume", preexec_fn=almost_full)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Cannot write" in done.stderr
    assert (out / "checkpoint.safetensors").read_bytes() == kept
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == []
    assert finish(out, "--resume").returncode == 0
    assert (out / "mapping.safetensors").read_bytes() == whole
