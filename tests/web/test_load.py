"""The server under load: many clients at once, with valid and invalid requests."""

import contextlib
import io
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.data.scenes import Scenes
from casmap.io.images import encode_jpeg

CLIENTS, SHORT, LONG = 50, 6, 120
WARM, PATIENCE = 3, 300  # responses to each client before memory is compared, and the time limit for them in seconds


def resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    text = Path(f"/proc/{pid}/statm").read_text()
    return int(text.split()[1]) * 4096 / 1e6


def bad_uploads() -> list[bytes]:
    """Not a photo, half a photo, a photo of many pixels in few bytes, and too many bytes."""
    good, bomb = encode_jpeg(Scenes(photos=1, size=64).image(0)), io.BytesIO()
    PIL.Image.fromarray(np.zeros((5000, 5000), np.uint8)).save(bomb, "PNG")
    return [b"", b"no photo", good[: len(good) // 2], bomb.getvalue(), bytes(3 << 20), b"\x00" * 1000]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_load_with_bad_requests_does_not_leak_memory(start, long) -> None:
    server = start("--megabytes", "2", "--megapixels", "4")
    good = [encode_jpeg(Scenes(photos=4, size=96).image(number)) for number in range(4)]
    bad, seconds = bad_uploads(), LONG if long else SHORT
    seen: Counter[tuple[str, int]] = Counter()
    lock, over, answered = threading.Lock(), threading.Event(), [0] * CLIENTS
    warming: list[float] = []
    memory: list[float] = []

    def send(body: bytes) -> int:
        request = urllib.request.Request(f"{server.address}/api/map", body)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with contextlib.suppress(ConnectionError):  # the server closes the connection while the client sends
                error.read()
            return error.code
        except (ConnectionError, urllib.error.URLError):  # rejected while sending: too long
            return 413

    failed: list[BaseException] = []

    def client(number: int) -> None:
        try:
            ask(number)
        except BaseException as error:
            failed.append(error)

    def ask(number: int) -> None:
        chance = random.Random(number)
        while not over.is_set():
            is_good = chance.random() < 0.6
            body = chance.choice(good if is_good else bad)
            for attempt in range(1000):
                status = send(body)
                with lock:
                    seen["good" if is_good else "bad", status] += 1
                if status != 503:
                    answered[number] += 1
                    break
                time.sleep(0.02 * chance.random() * (attempt + 1))
            else:
                raise AssertionError("never answered")

    clients = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    try:
        end = time.monotonic() + PATIENCE
        while min(answered) < WARM and not failed:  # on a busy machine the server's threads start slowly
            assert time.monotonic() < end, f"answers to each client: {answered}"
            warming.append(resident(server.process.pid))
            time.sleep(0.1)
        for _ in range(20):
            memory.append(resident(server.process.pid))
            time.sleep(seconds / 20)
    finally:
        over.set()
    for one in clients:
        one.join(60)
        assert not one.is_alive()
    assert not failed, failed[0]
    statuses = {kind: {status for which, status in seen if which == kind} for kind in ("good", "bad")}
    assert statuses["good"] <= {200, 503}
    assert 200 in statuses["good"]
    assert statuses["bad"] <= {400, 413, 415, 422, 503}
    assert statuses["bad"] & {400, 413, 415, 422}
    half = len(memory) // 2
    assert max(memory[half:]) < max(warming + memory[: half + 1]) * 1.25 + 50
    with urllib.request.urlopen(f"{server.address}/api/health", timeout=60) as answer:
        assert answer.status == 200
