"""What a request may ask for: bytes, pixels, time, and how many at once; beyond it there is a clear answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """bytes: of a request. pixels: of a photo. seconds: of work on a request. working, waiting: requests at once.

    photos: in a batch.
    """

    bytes: int = 32 * 2**20
    pixels: int = 64 * 10**6
    seconds: float = 30.0
    working: int = 2
    waiting: int = 16
    photos: int = 64


class Room:
    """Where requests wait for their turn: so many work, so many wait, the others are told to come back."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.inside = limits, 0
        self.turns = anyio.CapacityLimiter(limits.working)

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread, when it is its turn."""
        if self.inside >= self.limits.working + self.limits.waiting:
            raise HTTPException(503, "Too many requests at once: come back in a moment.", {"Retry-After": "1"})
        self.inside += 1
        try:
            with anyio.fail_after(self.limits.seconds):
                return await to_thread.run_sync(function, *arguments, limiter=self.turns, abandon_on_cancel=True)
        except TimeoutError as error:
            raise HTTPException(408, f"This took longer than {self.limits.seconds:g} seconds.") from error
        finally:
            self.inside -= 1


class TooLongError(Exception):
    """More bytes came than are allowed."""


class Gate:
    """What passes before anything is read: requests to this machine, from its own page or no page, and not too long.

    A page from elsewhere could otherwise send requests to a server on the visitor's own machine, and a name server
    could make that page look like its own.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: frozenset[str] | None) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once, or let it pass and count its bytes."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        host, origin, said = headers.get("host", ""), headers.get("origin"), headers.get("content-length", "0")
        most, came, begun = self.limits.bytes, 0, False
        too_long = JSONResponse({"detail": f"A request may have at most {most // 2**20} MB."}, 413)
        refusal = None
        if self.hosts is not None and host.rpartition(":")[0].strip("[]") not in self.hosts and host not in self.hosts:
            refusal = JSONResponse({"detail": "This server answers on its own machine only."}, 403)
        elif origin is not None and origin.partition("://")[2] != host:
            refusal = JSONResponse({"detail": "This server answers its own page only."}, 403)
        elif said.isdecimal() and int(said) > most:
            refusal = too_long
        if refusal is not None:
            return await refusal(scope, receive, send)

        async def counting() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > most:
                raise TooLongError
            return message

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, counting, noting)
        except TooLongError:
            if not begun:
                await too_long(scope, receive, send)
