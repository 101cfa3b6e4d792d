"""What a request may ask for: bytes, pixels, time, and how many at once; beyond it there is a clear answer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
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
        async with self._place():
            try:
                with anyio.fail_after(self.limits.seconds):
                    return await to_thread.run_sync(
                        partial(function, *arguments), limiter=self.turns, abandon_on_cancel=True
                    )
            except TimeoutError as error:
                raise HTTPException(408, f"This took longer than {self.limits.seconds:g} seconds.") from error

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        if self.inside >= self.limits.working + self.limits.waiting:
            raise HTTPException(503, "Too many requests at once: come back in a moment.", {"Retry-After": "1"})
        self.inside += 1
        try:
            yield
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
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and host.rpartition(":")[0].strip("[]") not in self.hosts and host not in self.hosts:
            await _answer(403, "This server answers on its own machine only.")(scope, receive, send)
            return
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            await _answer(403, "This server answers its own page only.")(scope, receive, send)
            return
        await self._counted(scope, receive, send, headers)

    async def _counted(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        most, came, begun = self.limits.bytes, 0, False
        too_long = _answer(413, f"A request may have at most {most // 2**20} MB.")
        said = headers.get("content-length", "0")
        if said.isdecimal() and int(said) > most:
            await too_long(scope, receive, send)
            return

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


def _answer(status: int, sentence: str) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    return JSONResponse({"detail": sentence}, status)
