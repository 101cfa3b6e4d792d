"""Limits of requests: size, pixels, time and number at once. A request above a limit gets an error with the limit."""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, TypeVar

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from casmap.errors import TooSlow

T = TypeVar("T")
END: ContextVar[float] = ContextVar("end", default=math.inf)  # of the time that a request has


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
    """Runs a limited number of requests at once; a limited number waits, and the others get status 503.

    A slot is a thread. Time limits and vanished clients end the waiting for an answer, but a thread cannot be stopped:
    its slot is free again when its work has really ended. What may take long is in processes that can be killed.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._places = BoundedSemaphore(limits.working + limits.waiting)
        self._threads = ThreadPoolExecutor(limits.working)

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread when a slot is free."""
        if not self._places.acquire(blocking=False):
            raise HTTPException(503, "Too many requests at once: try again in a second.", {"Retry-After": "1"})
        END.set(time.monotonic() + self.limits.seconds)
        working = self._threads.submit(copy_context().run, function, *arguments)
        working.add_done_callback(lambda _: self._places.release())
        try:
            with anyio.fail_after(self.limits.seconds):
                return await asyncio.wrap_future(working)  # cancelled while it waits for a slot, it never starts
        except (TimeoutError, TooSlow) as error:
            raise HTTPException(408, f"The request took longer than {self.limits.seconds:g} seconds.") from error

    def seconds_left(self) -> float:
        """Return the seconds that the request has left; to be called by the function that `work` runs."""
        return END.get() - time.monotonic()


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
