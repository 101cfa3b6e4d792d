"""Serve: load mappings, listen on this machine, open the page in the browser."""

import socket
import threading
import webbrowser
from pathlib import Path

import uvicorn

from casmap.errors import UserError
from casmap.inference.mapper import SaliencyMapper, load_mappers
from casmap.reporting import SILENT, Reporter
from casmap.web.app import LOOPBACK, create_app
from casmap.web.limits import Limits

SHIPPED_NAME = "casmap"
AT_ONCE = 256  # connections


def serve(
    mappings: list[Path] | None, *, host: str, port: int, limits: Limits, browser: bool, reporter: Reporter = SILENT
) -> None:
    """Answer requests until it is stopped."""
    mappers = load_mappers(mappings) if mappings else {SHIPPED_NAME: SaliencyMapper.load()}
    local = host in LOOPBACK
    app = create_app(mappers, limits, LOOPBACK if local else None)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, limit_concurrency=AT_ONCE))
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=AT_ONCE)
    except OSError as error:
        raise UserError(
            f"Nobody can listen at {host}:{port} ({error.strerror or error}): choose another --port."
        ) from error
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    reporter.message(f"{address}  (stop with Ctrl-C)")
    if not local:
        reporter.warning("Anybody who can reach this machine can use it: there is no password.")
    if browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    server.run([listening])
