"""Limits of requests: size, pixels, time and number at once. A request above a limit gets an error with the limit."""

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
    """The limits of a server.

    bytes: of a request. pixels: of a photo. seconds: of work for a request. working, waiting: requests at once.
    photos: in a batch.
    """

    bytes: int = 32 * 2**20
    pixels: int = 64 * 10**6
    seconds: float = 30.0
    working: int = 2
    waiting: int = 16
    photos: int = 64


class WorkQueue:
    """Runs a limited number of requests at once; a limited number waits, and the others get status 503."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.pending = limits, 0
        self.slots = anyio.CapacityLimiter(limits.working)

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread when a slot is free."""
        if self.pending >= self.limits.working + self.limits.waiting:
            raise HTTPException(503, "Too many requests at once: try again in a second.", {"Retry-After": "1"})
        self.pending += 1
        try:
            with anyio.fail_after(self.limits.seconds):
                return await to_thread.run_sync(function, *arguments, limiter=self.slots, abandon_on_cancel=True)
        except TimeoutError as error:
            raise HTTPException(408, f"The request took longer than {self.limits.seconds:g} seconds.") from error
        finally:
            self.pending -= 1


class TooLongError(Exception):
    """The body of a request exceeds the limit."""


class Gate:
    """Middleware that rejects requests with a foreign Host or Origin header, or with a body above the limit.

    Without these checks a foreign web page could send requests to a server on the visitor's machine, also by DNS
    rebinding.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: frozenset[str] | None) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it on and count the bytes of its body."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        host, origin, length = headers.get("host", ""), headers.get("origin"), headers.get("content-length", "0")
        most, received, started = self.limits.bytes, 0, False
        too_long = JSONResponse({"detail": f"A request may have at most {most // 2**20} MB."}, 413)
        refusal = None
        if self.hosts is not None and host.rpartition(":")[0].strip("[]") not in self.hosts and host not in self.hosts:
            refusal = JSONResponse({"detail": "This server accepts requests from its own machine only."}, 403)
        elif origin is not None and origin.partition("://")[2] != host:
            refusal = JSONResponse({"detail": "This server accepts requests from its own page only."}, 403)
        elif length.isdecimal() and int(length) > most:
            refusal = too_long
        if refusal is not None:
            return await refusal(scope, receive, send)

        async def counting() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise TooLongError
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counting, sending)
        except TooLongError:
            if not started:
                await too_long(scope, receive, send)
