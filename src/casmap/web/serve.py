"""Serve: load mappings, start the server, and open the page in the browser."""

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
CONNECTIONS = 256  # at once


def serve(
    mappings: list[Path] | None, *, host: str, port: int, limits: Limits, browser: bool, reporter: Reporter = SILENT
) -> None:
    """Run the server until it is stopped."""
    mappers = load_mappers(mappings) if mappings else {SHIPPED_NAME: SaliencyMapper.load()}
    local = host in LOOPBACK
    app = create_app(mappers, limits, LOOPBACK if local else None)
    config = uvicorn.Config(app, log_level="warning", server_header=False, limit_concurrency=CONNECTIONS)
    server = uvicorn.Server(config)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"Cannot bind to {host}:{port}: {reason}. Choose another port (--port).") from error
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    reporter.message(f"{address}  (stop with Ctrl-C)")
    if not local:
        reporter.warning("Anyone who can reach this machine can use the server: it has no password.")
    if browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    server.run([listening])
