"""Photos that take a server's time or memory: limits hold, and honest requests are answered afterwards."""

import asyncio
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from starlette.exceptions import HTTPException

from casmap.io.images import encode_jpeg
from casmap.web.limits import Limits, WorkQueue

CLIENTS, PATIENCE = 6, 40
WORKING = Limits().working
HONEST = encode_jpeg(np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8))


def send(address: str, body: bytes) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}/api/map", body), timeout=60) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["detail"]


def send_and_leave(address: str, body: bytes) -> None:
    """Send a request and close the connection before the answer."""
    where = urlsplit(address)
    with socket.create_connection((where.hostname, where.port)) as connection:
        head = f"POST /api/map HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        time.sleep(0.3)


def cpu_seconds(pids: list[int]) -> float:
    """The CPU time that processes have used."""
    used = 0
    for pid in pids:
        used += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return used / os.sysconf("SC_CLK_TCK")


def test_bombs_hold_no_more_than_their_slots_and_only_for_their_time(start, scan_bomb, workers_of) -> None:
    server = start("--seconds", "4")
    pid = server.process.pid
    begun = time.monotonic()
    while send(server.address, HONEST)[0] != 200:  # on a busy machine its processes take a while to start
        assert time.monotonic() < begun + PATIENCE
    answers: list[tuple[int, str]] = []
    most, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            most[0] = max(most[0], len(workers_of(pid)))
            time.sleep(0.02)

    clients = [
        *(threading.Thread(target=lambda: answers.append(send(server.address, scan_bomb))) for _ in range(CLIENTS)),
        *(threading.Thread(target=send_and_leave, args=(server.address, scan_bomb)) for _ in range(CLIENTS)),
    ]
    counting = threading.Thread(target=count)
    counting.start()
    try:
        for client in clients:
            client.start()
        for client in clients:
            client.join(PATIENCE)
    finally:
        over.set()
        counting.join()
    assert answers == [(408, "The request took longer than 4 seconds.")] * CLIENTS
    # Nothing goes on in secret: in a second of rest, the server and its processes use almost no time.
    end = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < end, "the server still decodes photos whose requests have ended"
        processes = [pid, *workers_of(pid)]
        before = cpu_seconds(processes)
        time.sleep(1)
        if [pid, *workers_of(pid)] == processes and cpu_seconds(processes) - before < 0.2:
            break
    assert most[0] == WORKING
    assert [send(server.address, HONEST)[0] for _ in range(2 * WORKING)] == [200] * 2 * WORKING


def test_a_thin_image_is_refused(server, thin_png) -> None:
    status, sentence = send(server.address, thin_png)
    assert (status, sentence) == (413, "A photo may have at most 64 million pixels, and 65,500 on a side.")


@pytest.mark.parametrize("leaves", [False, True])
def test_a_slot_is_held_until_the_work_has_ended(leaves) -> None:
    queue = WorkQueue(Limits(working=1, waiting=2, seconds=0.2))
    release, started = threading.Event(), []

    def busy(number: int) -> int:
        started.append(number)
        release.wait(PATIENCE)
        return number

    async def ask(number: int) -> int:
        if leaves:  # the server cancels the request of a client that has closed its connection
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(queue.work(busy, number), 0.05)
            return 0
        with pytest.raises(HTTPException) as refused:
            await queue.work(busy, number)
        return refused.value.status_code

    async def scenario() -> None:
        first = [await ask(1), await ask(2)]
        assert first == ([0, 0] if leaves else [408, 408])
        assert started == [1]  # the second has never started: the first still works
        release.set()
        for number in (3, 4, 5, 6):
            assert await queue.work(busy, number) == number
        assert started == [1, 3, 4, 5, 6]

    asyncio.run(scenario())


def test_work_knows_the_time_it_has_left() -> None:
    queue = WorkQueue(Limits(seconds=50))
    assert 0 < asyncio.run(queue.work(queue.seconds_left)) <= 50
