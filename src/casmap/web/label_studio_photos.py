"""Photos on the one Label Studio server that casmap was told of. Connections go to this server and to no other."""

import http.client
import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from casmap.errors import UnreadableImage, UserError
from casmap.io.reading import shown

PORTS = {"http": 80, "https": 443}
PRIVATE = ("/data/", "/storage-data/")  # where Label Studio keeps photos; other paths do not get the token
SAFE = "/%:@!$&'()*+,;=~-._?"  # characters of an address that stay as they are; % is there if it is quoted already
MAX_TOKEN = 2**16  # bytes of the answer with a token
PATIENCE = 20.0  # seconds for a photo
TOKEN = "LABEL_STUDIO_API_KEY"  # the variable that Label Studio's own SDK reads


class LabelStudio:
    """A Label Studio server.

    url: its address, as it appears in the tasks. token: of a user; either a legacy token or a personal access token,
    which is exchanged for one that is valid for minutes.

    >>> server = LabelStudio("http://localhost:8080")
    >>> server.target("/data/upload/1/a cat.jpg"), server.target("http://localhost:8080/data/upload/1/b.jpg")
    ('/data/upload/1/a%20cat.jpg', '/data/upload/1/b.jpg')
    >>> server.target("http://example.org/b.jpg")
    Traceback (most recent call last):
    casmap.errors.UnreadableImage: 'http://example.org/b.jpg' is not on http://localhost:8080: it is not fetched.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in PORTS or parts.query or parts.fragment or parts.username is not None:
            raise UserError(f"{shown(url)} is not the address of a server: give one such as http://localhost:8080.")
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise UserError(f"{TOKEN} is not a token of Label Studio: copy it from Account & Settings.")
        self.url, self.token = url.rstrip("/"), token or None  # an empty variable is no token
        self.scheme, self.host, self.port = parts.scheme, host, port or PORTS[parts.scheme]
        self.base = parts.path.rstrip("/")
        self._private = tuple(quote(self.base, SAFE) + path for path in PRIVATE)
        self._access: str | None = None
        self._lock = threading.Lock()  # of _access: photos are fetched in several threads

    def photo(self, address: str, most: int, seconds: float = PATIENCE) -> bytes:
        """Fetch a photo; raise UnreadableImage if the server does not give it, at most `most` bytes, in time."""
        target = self.target(address)
        headers = self._authorization() if target.startswith(self._private) else {}
        status, content = self._request("GET", target, headers, most, seconds, address)
        if status == 401 and headers and self._exchanged:  # it was valid for minutes
            headers = self._authorization(refused=headers)
            status, content = self._request("GET", target, headers, most, seconds, address)
        if status == 200:
            return content
        reason = {401: f"needs a token ({TOKEN})", 403: f"refuses the token in {TOKEN}", 404: "does not have it"}.get(
            status, "redirects it, which is not followed" if 300 <= status < 400 else f"answers {status}"
        )
        raise UnreadableImage(f"{shown(address)} cannot be fetched: Label Studio {reason}.")

    def target(self, address: str) -> str:
        """Return the path and query of a photo's address; raise UnreadableImage for an address elsewhere."""
        elsewhere = UnreadableImage(f"{shown(address)} is not on {self.url}: it is not fetched.")
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError:
            raise elsewhere from None
        relative = not parts.scheme and not parts.netloc and parts.path.startswith("/")
        same = (parts.scheme, parts.hostname, port or PORTS.get(parts.scheme)) == (self.scheme, self.host, self.port)
        if not (relative or same) or parts.username is not None or "\\" in address:  # browsers take it for a slash
            raise elsewhere
        path = parts.path if same or parts.path.startswith(f"{self.base}/") else self.base + parts.path
        if not {".", ".."}.isdisjoint(unquote(path).split("/")):
            raise elsewhere
        return quote(path or "/", SAFE) + (f"?{quote(parts.query, SAFE)}" if parts.query else "")

    @property
    def _exchanged(self) -> bool:
        """Whether the token is a personal access token (a JWT)."""
        return self.token is not None and self.token.count(".") == 2

    def _authorization(self, refused: dict[str, str] | None = None) -> dict[str, str]:
        """Return the header with the token. refused: the header that the server did not accept, if any."""
        if self.token is None:
            return {}
        if not self._exchanged:
            return {"Authorization": f"Token {self.token}"}
        with self._lock:  # the first thread exchanges the token, the others use what it got
            if self._access is None or refused == _bearer(self._access):
                self._access = self._exchange()
            return _bearer(self._access)

    def _exchange(self) -> str:
        """Exchange the token for one that is valid for minutes."""
        body, headers = json.dumps({"refresh": self.token}).encode(), {"Content-Type": "application/json"}
        status, content = self._request(
            "POST", f"{self.base}/api/token/refresh/", headers, MAX_TOKEN, PATIENCE, "the token", body
        )
        found = None
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(content)["access"]
        if status != 200 or not (isinstance(found, str) and found.isascii() and found.isprintable()):
            raise UnreadableImage(f"Label Studio refuses the token in {TOKEN}: create a new one.")
        return found

    def _request(
        self, method: str, target: str, headers: dict[str, str], most: int, seconds: float, what: str,
        body: bytes | None = None,
    ) -> tuple[int, bytes]:  # fmt: skip
        """Send a request to the server; returns its status and content. Redirects are not followed."""
        connection: Any = http.client.HTTPConnection(self.host, self.port, timeout=max(0.1, seconds))
        if self.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=max(0.1, seconds), context=context)
        # A time limit for each piece that arrives is not one for all of them.
        end = time.monotonic() + max(0.1, seconds)
        limit = threading.Timer(max(0.1, seconds), _hang_up, [connection])
        limit.daemon = True
        limit.start()
        try:
            connection.request(method, target, body, {"Accept-Encoding": "identity", **headers})
            answer = connection.getresponse()
            content = answer.read(most + 1)
            if time.monotonic() >= end:
                raise TimeoutError
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() >= end
            reason = f"it took longer than {seconds:.3g} seconds" if late else _reason(error)
            raise UnreadableImage(f"{shown(what)} cannot be fetched from {self.url}: {reason}.") from error
        finally:
            limit.cancel()
            connection.close()
        if len(content) > most:
            raise UnreadableImage(f"{shown(what)} has more than {most >> 20} MB.")
        return answer.status, content


def _bearer(access: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {access}"}


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):  # not connected yet, or closed already
        connection.sock.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or type(error).__name__)
