"""Clients that send nothing, half a request or too much, or that do not read: the server closes them and goes on."""

import contextlib
import json
import os
import select
import signal
import socket
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from casmap.data.free_photos import free_photos
from casmap.io.images import encode_png

HANGS = 60  # seconds: whatever takes longer never ends
HALF = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nX-Half: "
linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")


def connect(server, sent: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
    """A connection on which something was sent."""
    address = urlsplit(server.address)
    connection = socket.socket()
    connection.settimeout(HANGS)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect((address.hostname, address.port))
    connection.sendall(sent)
    return connection


def post(path: str, length: int, content: bytes = b"") -> bytes:
    """A request with a body, or with the beginning of one."""
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + content


def rest(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection; fails if it never does."""
    got = b""
    try:
        while more := connection.recv(2**16):
            got += more
    except ConnectionError:
        pass
    return got


def send_steadily(connection: socket.socket, photo: bytes, answers: list[bytes]) -> None:
    """Send a photo for longer than the deadline, at twice the least rate."""
    for begin in range(0, len(photo), 2**15):
        time.sleep(1)
        connection.sendall(photo[begin : begin + 2**15])
    answers.append(connection.recv(2**16))


def is_healthy(server) -> bool:
    with urllib.request.urlopen(f"{server.address}/api/health", timeout=HANGS) as answer:
        return answer.status == 200


def sockets_of(server) -> int:
    """How many sockets the server has."""
    count = 0
    for one in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(one).startswith("socket:")
    return count


def resident(server) -> float:
    """Resident memory of the server, in MB."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.fixture(scope="module")
def noise() -> bytes:
    """A photo of which every view has several megabytes."""
    return encode_png(np.random.default_rng(0).integers(0, 255, (1400, 1400, 3), np.uint8))


@linux
def test_slow_clients_are_closed_and_shut_nobody_out(start, noise) -> None:
    server = start()
    assert is_healthy(server)
    before = sockets_of(server)
    photo = free_photos()[0].read_bytes() + bytes(2**17)
    connection = connect(server, post("/api/map", len(photo)))
    assert is_healthy(server)  # and has read the head: of too many connections, those without one are closed first
    steady = threading.Thread(target=send_steadily, args=(connection, photo, answers := []))
    steady.start()
    unread = connect(server, post("/api/view?view=overlay", len(noise), noise), receive_buffer=4096)
    slow = [connect(server, b"" if number % 2 else HALF) for number in range(260)]
    assert is_healthy(server)
    second = connect(server, HALF + b"\r\n\r\n" + HALF)
    stalled = connect(server, post("/api/map", 1000, b"x" * 10))
    for one in slow:
        assert rest(one) == b""
    assert rest(second).startswith(b"HTTP/1.1 200 ")
    answer = rest(stalled)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"less than 16 kB per second" in answer
    end = time.monotonic() + HANGS
    while sockets_of(server) > before:
        assert time.monotonic() < end, "a connection whose client does not read is still open"
        time.sleep(0.5)
    unread.close()
    steady.join()
    assert answers[0].startswith(b"HTTP/1.1 200 ")


@linux
def test_stalled_bodies_hold_little_memory_and_shut_nobody_out(start) -> None:
    server, size = start("--megabytes", "8"), 7 * 2**20
    photo = free_photos()[0].read_bytes()

    def ask() -> int:
        with urllib.request.urlopen(f"{server.address}/api/map", photo, timeout=HANGS) as answer:
            return answer.status

    assert ask() == 200
    before = resident(server)
    stalled = [connect(server, post("/api/map", size + 1, bytes(size))) for _ in range(60)]  # 440 MB
    assert ask() == 200
    assert resident(server) - before < 8 * 8 + 60  # bodies and buffers
    answered, _, _ = select.select(stalled, [], [], 0)
    assert len(answered) >= 50
    for one in answered:
        answer = one.recv(2**16)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer
    for one in stalled:
        one.close()
    assert ask() == 200


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_whatever_clients_do(start, noise, sent) -> None:
    server = start()
    assert is_healthy(server)
    body = post("/api/map", 10**6, b"x" * 1000)
    held = [connect(server, content) for content in (b"", HALF, body, HALF + b"\r\n\r\n" + HALF) * 15]
    if sent == signal.SIGTERM:  # and a client that does not read: takes until the end of the grace
        held.append(connect(server, post("/api/view?view=overlay", len(noise), noise), receive_buffer=4096))
    assert is_healthy(server)
    server.process.send_signal(sent)
    out, err = server.process.communicate(timeout=HANGS)
    assert (server.process.returncode, out.splitlines()[-1]) == (0, "Stopped.")
    assert "training" not in out + err
    assert "Traceback" not in err
    for one in held:
        one.close()


def test_work_in_progress_is_finished_or_ended(start) -> None:
    slow = "import time, casmap.web.app as app\nencode = app.encode_png\n"
    photo = free_photos()[0].read_bytes()
    answers = []
    for seconds in (2, 300):
        wait = f"app.encode_png = lambda image: print('drawing', flush=True) or time.sleep({seconds}) or encode(image)"
        server = start(first=slow + wait)
        connection = connect(server, post("/api/view", len(photo), photo))
        assert server.process.stdout.readline() == "drawing\n"
        server.process.send_signal(signal.SIGTERM)
        answers.append(rest(connection).partition(b"\r\n\r\n"))
        assert server.process.wait(HANGS) == 0
    (finished, _, image), (ended, _, sentence) = answers
    assert finished.startswith(b"HTTP/1.1 200 ")
    assert image.startswith(b"\x89PNG")
    assert ended.startswith(b"HTTP/1.1 503 ")
    assert json.loads(sentence) == {"detail": "The server was stopped."}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cat..example", "unknown host. Choose another address (--host)."),
        ("192.0.2.1", "Cannot assign requested address. Choose another address (--host)."),
        ("", "The host is empty"),
    ],
)
def test_an_address_that_cannot_be_bound_is_a_one_line_error(fresh, name, words) -> None:
    assert words in fresh("serve", "--no-browser", "--host", name, "--port", "0").sentence()
