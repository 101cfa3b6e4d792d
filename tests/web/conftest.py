"""A real server on a free port of this machine, a web host, and a real browser."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from casmap.web import ort_web

ROOT = Path(__file__).parents[2]
PACKAGE = f"{ort_web.PACKAGE}-{ort_web.VERSION}.tgz"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


class Server:
    """A server started by `casmap serve`. first: code that its process runs before. environment: more variables."""

    def __init__(self, *arguments: str, first: str = "", environment: dict[str, str] | None = None) -> None:
        code = f"{first}\nfrom casmap.cli.main import main\nmain()"
        command = [sys.executable, "-c", code, "serve", "--port", "0", "--no-browser", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT | (environment or {})
        )
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().split()[0]
        self.address, _, self.token = self.link.partition("/?token=")
        self.address = self.address.rstrip("/")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(20)


@pytest.fixture(scope="module")
def server():
    running = Server()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def start():
    """Start servers with other options; all are stopped at the end."""
    running: list[Server] = []

    def begin(*arguments: str, **options) -> Server:
        running.append(Server(*arguments, **options))
        return running[-1]

    yield begin
    for one in running:
        one.stop()


@pytest.fixture(scope="session")
def chromium():
    """The path of the browser."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("Chromium is missing (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """Chromium, run by Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


class Handler(SimpleHTTPRequestHandler):
    """Sends .mjs as nginx does, whose list of types does not have it, and further headers."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "application/octet-stream"}  # noqa: RUF012

    def __init__(self, *arguments: Any, headers: dict[str, str], sent: list[tuple[str, int]], **options: Any) -> None:
        self.more, self.sent = headers, sent
        super().__init__(*arguments, **options)

    def end_headers(self) -> None:
        for name, value in self.more.items():
            self.send_header(name, value)
        super().end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.sent.append((self.path, int(code)))

    def log_message(self, *_: object) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        with suppress(ConnectionError):  # a test that has ended closes its browser
            super().copyfile(source, outputfile)


@pytest.fixture
def web_host():
    """Serve folders at free ports, as any web host does; returns a function that gives the server and its address.

    headers: of every answer. sent: gets the path and status of every answer.
    """
    running = []

    def begin(
        folder: Path, headers: dict[str, str] | None = None, sent: list[tuple[str, int]] | None = None
    ) -> tuple[ThreadingHTTPServer, str]:
        told = {"headers": headers or {}, "sent": [] if sent is None else sent}
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder), **told))
        Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return server, f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The npm package, which `make test` gets before the tests."""
    found = Path(os.environ.get("CASMAP_ORT_WEB", ROOT / ".venv" / PACKAGE))
    if not found.is_file():
        pytest.skip(f"{PACKAGE} is missing (npm pack {ort_web.PACKAGE}@{ort_web.VERSION}; CASMAP_ORT_WEB is its path)")
    return found
