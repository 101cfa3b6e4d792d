"""Who may use the server: checks of the Host and Origin headers, and of the token."""

import base64
import binascii
import re
from dataclasses import dataclass
from hmac import compare_digest
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:\[\]@]+))\.?(?::[0-9]*)?", re.IGNORECASE)
OPEN = ("/api/health", "/health")  # need no token: programs that watch servers ask for them
BASIC = ("/setup", "/predict", "/webhook")  # Label Studio sends a name and a password: any name, and the token
PAGE = "/"  # takes the token from its address


def host_name(header: str) -> str:
    """The name in a Host header, without the port; empty if the header is malformed.

    >>> [host_name(one) for one in ("LocalHost:8765", "[::1]:80", "cat.example.", "a b", "user@localhost")]
    ['localhost', '::1', 'cat.example', '', '']
    """
    found = HOST.fullmatch(header)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""


@dataclass(frozen=True)
class Access:
    """Who may use a server.

    hosts: names that the Host header may contain; None: any. addresses: it may also contain any IP address. token: what
    a client must send; None: nothing.

    Without the check of names, a foreign web page could send requests by DNS rebinding: its own name then leads to this
    server. An IP address cannot be rebound.
    """

    hosts: frozenset[str] | None = LOOPBACK
    addresses: bool = False
    token: str | None = None

    def check(self, request: HTTPConnection) -> None:
        """Raise an HTTPException if the request is not allowed."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._is_host(host_name(host)):
            raise HTTPException(403, "This server answers to its own names only: --allowed-host NAME adds one.")
        if origin is not None and origin.partition("://")[2] != host:
            raise HTTPException(403, "This server accepts requests from its own page only.")
        if self.token is not None and request.scope["path"] not in OPEN and not self._has_token(request):
            sentence = (
                "This server needs its token: open the link that it printed, or send Authorization: Bearer TOKEN."
            )
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})

    def cookie(self, request: HTTPConnection) -> str | None:
        """The cookie that keeps the token for the page, if the address contains it."""
        if self.token is None or not self._in_address(request):
            return None
        # The page is not moved to an address without the token: a browser that followed a link of another site would
        # send no strict cookie there.
        secure, kept = request.scope["scheme"] == "https", Response()
        kept.set_cookie(_cookie_name(request), self.token, httponly=True, samesite="strict", secure=secure)
        return kept.headers["set-cookie"]

    def _is_host(self, name: str) -> bool:
        return self.hosts is None or name in self.hosts or (self.addresses and _is_address(name))

    def _has_token(self, request: HTTPConnection) -> bool:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        bearer = scheme.lower() == "bearer" and self._is_token(sent.strip())
        if scheme.lower() == "basic" and request.scope["path"] in BASIC:
            bearer = self._is_token(_password(sent.strip()))
        return bearer or self._is_token(request.cookies.get(_cookie_name(request), "")) or self._in_address(request)

    def _in_address(self, request: HTTPConnection) -> bool:
        return request.scope["path"] == PAGE and self._is_token(request.query_params.get("token", ""))

    def _is_token(self, sent: str) -> bool:
        return compare_digest(sent.encode(errors="replace"), (self.token or "").encode())


def _password(sent: str) -> str:
    """The password of basic authentication; "" if there is none.

    >>> _password(base64.b64encode(b"casmap:se:cret").decode()), _password("?")
    ('se:cret', '')
    """
    try:
        return base64.b64decode(sent, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def _cookie_name(request: HTTPConnection) -> str:
    return f"casmap-{request.scope['server'][1]}"  # browsers send cookies to all ports of a host
