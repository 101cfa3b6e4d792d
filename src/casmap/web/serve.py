"""Serve: load mappings, start the server, and open the page in the browser."""

import errno
import hashlib
import os
import re
import secrets
import socket
import threading
import webbrowser
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import uvicorn
from starlette.formparsers import MultiPartParser

from casmap.errors import UserError, keywords
from casmap.inference.mapper import SHIPPED, SaliencyMapper, load_mappers
from casmap.io.images import encode_png
from casmap.reporting import SILENT, Reporter
from casmap.version import __version__
from casmap.web.access import LOOPBACK, host_name
from casmap.web.app import HEADERS, create_app
from casmap.web.connections import CONNECTIONS, GRACE, Connection, Server
from casmap.web.label_studio_photos import LabelStudio
from casmap.web.limits import Limits

SHIPPED_NAME = "casmap"
PIXEL = encode_png(np.zeros((1, 1), np.uint8))
TOKEN = re.compile(r"[\w.~-]{8,200}", re.ASCII)  # what needs no escape in an address, a header or a cookie


def serve(
    mappings: list[Path] | None, *, host: str, port: int, limits: Limits, browser: bool, reporter: Reporter = SILENT,
    allowed_hosts: Sequence[str] = (), token: str | None = None, label_studio: LabelStudio | None = None,
) -> None:  # fmt: skip
    """Run the server until a signal stops it.

    allowed_hosts: names that the Host header may contain, besides those of this machine's loopback. token: what clients
    must send; if None, a server that other machines can reach chooses one. label_studio: the server that may ask for
    predictions of the first mapping.
    """
    if not host:
        raise UserError("The host is empty: give an address of this machine, e.g. 127.0.0.1 (--host).")
    if token is not None and not TOKEN.fullmatch(token):
        raise UserError("The token must have 8 to 200 letters, digits or any of . _ ~ - (--token or CASMAP_TOKEN).")
    allowed = {host_name(one) for one in allowed_hosts}
    if "" in allowed:
        raise UserError(f"Not a host name: {', '.join(allowed_hosts)}. Give the name alone, e.g. casmap.example.org.")
    mappers = load_mappers(mappings) if mappings else {SHIPPED_NAME: SaliencyMapper.load()}
    listening = bind(host, port)
    bound, port = listening.getsockname()[:2]
    local = ip_address(bound).is_loopback
    chosen = token or (None if local else secrets.token_urlsafe(24))
    names = LOOPBACK | (allowed or {host.lower()} | (set() if local else {socket.gethostname().lower()}))
    asks = None if label_studio is None else (label_studio, version_of(next(iter(mappers)), mappings))
    app = create_app(mappers, limits, names, addresses=not local and not allowed, token=chosen, label_studio=asks)
    for limit in ("spool_max_size", "max_file_size"):  # the second is its name in older versions of starlette
        setattr(MultiPartParser, limit, 0)  # none: photos of a form stay in memory, where `Bodies` counts them
    config = uvicorn.Config(
        app, http=Connection, ws="none", log_level="error", access_log=False, server_header=False,
        headers=list(HEADERS.items()), backlog=CONNECTIONS, timeout_graceful_shutdown=GRACE,
    )  # fmt: skip
    with app.state.opener as opener:
        opener.start(limits.working)
        opener(PIXEL)  # processes that do not start end the command, not every request
        shown = host_name(allowed_hosts[0]) if allowed else host  # a name that the server accepts
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        link = f"{address}?token={chosen}" if chosen else address
        reporter.message(f"{address if token else link}  (stop with Ctrl-C)")
        if not local:
            reporter.warning(
                "Anyone who can reach this machine and has the token can use the server, without encryption."
            )
        if label_studio is not None:
            reporter.message(f"Label Studio at {label_studio.url}: connect the model {address}")
        if browser:
            threading.Timer(0.5, webbrowser.open, [link]).start()
        with keywords():  # clients send options as parameters of a request
            Server(config).run([listening])
    reporter.message("Stopped.")


def version_of(name: str, mappings: list[Path] | None) -> str:
    """The name of the first mapping and a hash of its file: Label Studio keeps predictions of each version apart."""
    with open(mappings[0] if mappings else SHIPPED, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"casmap {__version__} {name} {digest[:8]}"


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens.

    >>> bind("cat..example", 0)
    Traceback (most recent call last):
    casmap.errors.UserError: Cannot bind to cat..example:0: unknown host. Choose another address (--host).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port, family)  # create_server hides this error in another
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except (socket.gaierror, UnicodeError) as error:
        raise UserError(f"Cannot bind to {host}:{port}: unknown host. Choose another address (--host).") from error
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        other = "address (--host)" if error.errno == errno.EADDRNOTAVAIL else "port (--port)"
        raise UserError(f"Cannot bind to {host}:{port}: {reason}. Choose another {other}.") from error
