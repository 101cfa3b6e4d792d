"""One process or several: the same algorithm."""

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from casmap.data.batches import Batches
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.models.files import read_tensors
from casmap.training.distributed import ONE_PROCESS

DATA = "scenes:classes=4,photos=32,size=32"
RECIPE = [
    "--recipe", "quick", "--size", "32", "--batch", "8", "--steps", "20", "--period", "3", "--sample-limit", "4",
    "--threads", "1", "--checkpoint-every", "6",
]  # fmt: skip
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def torchrun(processes: int, *program: str, restarts: int = 0) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--max-restarts",
        str(restarts), "--master-addr", "127.0.0.1", "--master-port", free_port(), *program,
    ]  # fmt: skip


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Its stdout and stderr; if it hangs, it is stopped (and torchrun stops its workers) before the test fails."""
    try:
        return process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate(timeout=120)
        raise


def run(command: list[str]) -> str:
    process = start(command)
    stdout, stderr = finish(process)
    assert process.returncode == 0, stderr
    return stdout


def training(out: Path, *more: str) -> list[str]:
    return ["-m", "casmap", "train", DATA, *RECIPE, "--out", str(out), *more]


def log_of(run: Path, name: str = "log") -> list[dict[str, float]]:
    with open(run / f"{name}.csv", newline="") as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> str:
    """f(0), for all of them."""
    out = tmp_path_factory.mktemp("first") / "classifier"
    command = [sys.executable, "-m", "casmap", "classifier", DATA, *RECIPE, "--first-steps", "30", "--out", str(out)]
    run(command)
    return str(out / "classifier.safetensors")


@pytest.fixture(scope="module")
def two(first, tmp_path_factory) -> Path:
    """A run of two processes that was never stopped."""
    out = tmp_path_factory.mktemp("two") / "run"
    stdout = run(torchrun(2, *training(out, "--classifier", first)))
    assert stdout.count("Mapping: ") == 1  # only one process prints
    return out


@pytest.mark.parametrize("erase", [(), ("features",)], ids=["pixels", "features"])
def test_two_processes_take_the_steps_of_one(first, tmp_path, erase) -> None:
    """With batch norms frozen: on a CPU they cannot be synchronised."""
    program = str(Path(__file__).parent / "frozen_run.py")
    run([sys.executable, program, first, str(tmp_path / "one"), *erase])
    run(torchrun(2, program, first, str(tmp_path / "two"), *erase))
    alone, both = log_of(tmp_path / "one"), log_of(tmp_path / "two")
    assert len(alone) == len(both) == 20
    assert max(row["samples"] for row in alone) > 2  # earlier classifiers were drawn
    for key in alone[0]:
        np.testing.assert_allclose([row[key] for row in both], [row[key] for row in alone], rtol=1e-4, atol=1e-4)
    assert not list((tmp_path / "two").glob("checkpoint*"))


def test_processes_have_the_same_weights_if_batch_norms_are_trained(first, tmp_path) -> None:
    """Statistics differ between processes, so that losses differ from those of one process; the weights do not."""
    program = str(Path(__file__).parent / "frozen_run.py")
    run(torchrun(2, program, first, str(tmp_path / "run"), "free"))
    weights = [(tmp_path / f"weights-{rank}.safetensors").read_bytes() for rank in range(2)]
    assert weights[0] == weights[1]


def test_f0_is_trained_together_too(tmp_path) -> None:
    run(torchrun(2, *training(tmp_path / "run", "--first-steps", "6")))
    assert len(log_of(tmp_path / "run", "classifier-log")) == 6
    assert (tmp_path / "run" / "mapping.safetensors").exists()
    assert not list((tmp_path / "run").glob("checkpoint*"))


def test_a_worker_that_dies_is_started_again_and_the_end_is_the_same(first, two, tmp_path) -> None:
    out = tmp_path / "run"
    command = torchrun(2, *training(out, "--classifier", first), restarts=2)
    process = start(command)
    while not (out / "checkpoint.safetensors").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(max(children_of(process.pid)), signal.SIGKILL)
    _, complained = finish(process)
    assert process.returncode == 0, complained
    assert "exitcode: -9" in complained  # it was in the middle
    assert (out / "mapping.safetensors").read_bytes() == (two / "mapping.safetensors").read_bytes()
    assert log_of(out) == log_of(two)


def test_two_hosts_end_as_two_processes_of_one(first, two, tmp_path) -> None:
    """Each with a disk of its own: what the second needs of the first comes over the network."""
    script = Path(__file__).parent / "two_hosts.sh"
    if shutil.which("ip") is None:
        pytest.skip("the command ip is missing (Debian: apt-get install iproute2)")
    command = [str(script), sys.executable, str(tmp_path), "train", DATA, *RECIPE, "--classifier", first]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    if done.returncode == 77:
        pytest.skip("network namespaces may not be made here")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0" / "mapping.safetensors").read_bytes() == (two / "mapping.safetensors").read_bytes()
    assert not (tmp_path / "1").exists()  # one of them writes


def test_torchrun_resumes_only_its_own_run(first, two, tmp_path) -> None:
    shutil.copytree(two, tmp_path / "run")
    command = torchrun(2, *training(tmp_path / "run", "--classifier", first), restarts=1)
    process = start(command)
    _, complained = finish(process)
    assert process.returncode != 0
    assert "already holds a run" in complained


def children_of(parent: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    workers = [int(child) for child in found if b"casmap" in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert len(workers) == 2
    return workers


def test_a_batch_that_cannot_be_shared_equally_is_refused() -> None:
    photos = Scenes(classes=2, photos=8, size=32)
    with pytest.raises(UserError, match="A batch of 8 photos cannot be shared equally by 3 processes"):
        Batches(photos, 32, 8, (0.0,) * 3, (1.0,) * 3, ranks=3)


@pytest.mark.parametrize("ranks", [2, 4])
def test_parts_of_a_batch_are_the_batch(ranks) -> None:
    photos = Scenes(classes=2, photos=8, size=32)
    whole = list(Batches(photos, 32, 8, (0.0,) * 3, (1.0,) * 3).between(3, 6))
    parts = [
        list(Batches(photos, 32, 8, (0.0,) * 3, (1.0,) * 3, rank=rank, ranks=ranks).between(3, 6))
        for rank in range(ranks)
    ]
    for step, (images, labels) in enumerate(whole):
        for rank in range(ranks):
            assert torch.equal(parts[rank][step][0], images[rank::ranks])
            assert torch.equal(parts[rank][step][1], labels[rank::ranks])


def test_with_one_process_nothing_is_sent_and_copies_are_copies(tmp_path) -> None:
    weights = {"a": torch.ones(3)}
    kept = ONE_PROCESS.copy_weights(weights)
    weights["a"] += 1
    assert kept["a"].tolist() == [1, 1, 1]
    with ONE_PROCESS.mirrored(tmp_path) as folder:
        assert folder == tmp_path
    assert ONE_PROCESS.broadcast(b"x") == b"x"


def test_the_mapping_of_two_processes_can_be_read(two) -> None:
    tensors, _ = read_tensors(two / "mapping.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
