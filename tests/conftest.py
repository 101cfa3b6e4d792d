"""What all tests share; the command line as its users meet it: real processes, their words and their exit codes."""

import io
import json
import os
import select
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
import pytest
import torch
from hypothesis import settings

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import save_classifier, save_mapping
from casmap.models.network import SaliencyNetwork

# A loaded machine is slow, not wrong.
settings.register_profile("casmap", deadline=None)
settings.load_profile("casmap")

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "FORCE_COLOR"} | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}

# Loading torch takes most of the time of a command. This process loads it once and forks itself for each command: each
# runs in a process of its own, as it would if it had been started by hand.
HOST = """
import gc, json, os, sys, traceback
import cv2, jinja2, rich.progress, rich.table, timm, torch, torch.utils.tensorboard, typer, yaml
gc.freeze()  # else a child copies all of it as soon as it collects garbage
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(asked["cwd"])
        for number, path in enumerate(asked["streams"], 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["casmap", *asked["arguments"]]
        code = 1
        try:
            from casmap.cli.main import main
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def workers_of(parent: int) -> list[int]:
    """The processes that open photos for a process."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            state, its_parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (process / "cmdline").read_bytes()
            starts = b"casmap.io.worker" in command or b"casmap.io.video_worker" in command
            if int(its_parent) == parent and starts and state != "Z":
                found.append(int(process.name))
    return found


@pytest.fixture(scope="session", name="workers_of")
def give_workers_of():
    """Find the processes that open photos for a process."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are found in /proc")
    return workers_of


@pytest.fixture(scope="session")
def scan_bomb() -> bytes:
    """A JPEG of 0.6 MB whose last scan is repeated 40,000 times: to decode it takes most of a minute."""
    saved = io.BytesIO()
    PIL.Image.new("L", (2000, 2000), 128).save(saved, "JPEG", progressive=True)
    content = saved.getvalue()
    scan = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + 40_000 * scan + content[-2:]


@pytest.fixture(scope="session")
def thin_png() -> bytes:
    """The 80 bytes of a PNG of 1 x 64,000,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 64_000_000, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether there is an hour: `make soak` runs long tests in full, `make test` a short form of each."""
    return "CASMAP_SOAK" in os.environ


@dataclass
class Done:
    """How a command ended."""

    code: int
    said: str
    complained: str

    def sentence(self):
        """The one sentence of a user's mistake: exit code 2, and nothing else on stderr."""
        assert self.code == 2, self.complained or self.said
        assert self.complained.startswith("casmap: ")
        assert self.complained.endswith(".\n")
        assert self.complained.count("\n") == 1
        assert "Traceback" not in self.complained
        assert "Error" not in self.complained
        return self.complained


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with subprocess.Popen(
        [sys.executable, "-c", HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        yield process, tmp_path_factory.mktemp("streams")
        process.stdin.close()


@pytest.fixture
def casmap(host, tmp_path):
    """Run a command in a fresh folder, in a process that has torch already."""
    process, streams = host

    def run(*arguments):
        paths = [streams / name for name in ("out", "err")]
        asked = {"arguments": [str(a) for a in arguments], "streams": [str(p) for p in paths], "cwd": str(tmp_path)}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        return Done(int(process.stdout.readline()), *(path.read_text() for path in paths))

    return run


@pytest.fixture(scope="session")
def environment():
    """Of the processes that tests start: one thread each, no colours."""
    return ENVIRONMENT


@pytest.fixture(scope="session")
def fresh():
    """Run a command in a process that has nothing yet."""

    def run(*arguments, start="from casmap.cli.main import main; main()", cwd=None):
        done = subprocess.run(
            [sys.executable, "-c", start, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            cwd=cwd,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def files():
    """All that is in a folder, hidden files too."""
    return lambda folder: sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def mapping(tmp_path_factory):
    """A mapping file with random weights."""
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 4)
    classes = [f"class-{number:02d}" for number in range(4)]
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), classes, predicts=True)
    torch.nn.init.normal_(network.decoder.mask.weight)
    path = tmp_path_factory.mktemp("mine") / "mapping.safetensors"
    save_mapping(path, network, {"size": 64})
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A classifier of three classes."""
    path = tmp_path_factory.mktemp("first") / "classifier.safetensors"
    save_classifier(path, Classifier("test_resnet", 3), ["ant", "bee", "cat"], {"origin": "Nobody trained it."})
    return path


@pytest.fixture(scope="module")
def knowing(tmp_path_factory):
    """A classifier that knows the four classes of the scenes."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("knowing") / "classifier.safetensors"
    classes = [f"class-{number:02d}" for number in range(4)]
    save_classifier(path, Classifier("test_resnet", 4), classes, {"origin": "Nobody trained it."})
    return path


class Opener:
    """A process that opens files, and is restarted when a file has ended it."""

    seconds = 10

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def open(self, kind: str, path: Path) -> tuple[str, int]:
        """Return the result for a file, and the memory in MB."""
        if self.process is None:
            program = Path(__file__).parent / "opens.py"
            self.process = subprocess.Popen(
                [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            self._ask("image", Path("missing.jpg"), 120)  # once all is imported
        return self._ask(kind, path, self.seconds)

    def _ask(self, kind: str, path: Path, seconds: int) -> tuple[str, int]:
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{kind} {path}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            return f"no answer within {seconds} seconds" if not ready else "the process has died", 0
        try:
            result, megabytes = json.loads(line)
        except ValueError:
            self.stop()  # it may have printed more
            return f"something printed by others: {line}", 0
        return result, megabytes

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@pytest.fixture(scope="module")
def opener():
    one = Opener()
    yield one
    one.stop()
