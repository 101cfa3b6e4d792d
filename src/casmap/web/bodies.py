"""The bodies of requests, in memory: bounded each, bounded together, and dropped if they stop arriving."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import checkpoint
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Message, Receive

PATIENCE, LEAST = 10.0, 160 * 2**10  # a client must move this many bytes in so many seconds, or finish
AT_ONCE = 8  # bodies of the largest size that memory may hold
BLOCK = 2**18  # bytes: a client may send one byte at a time, which must not cost an object each


@dataclass(eq=False)
class Body:
    """A body that arrives or has arrived."""

    scope: anyio.CancelScope
    blocks: deque[bytearray] = field(default_factory=deque)
    size: int = 0
    dropped: bool = False

    def add(self, content: bytes) -> None:
        """Append bytes."""
        if not self.blocks or len(self.blocks[-1]) >= BLOCK:
            self.blocks.append(bytearray())
        self.blocks[-1] += content
        self.size += len(content)


class Bodies:
    """The bodies that a server holds. most: bytes of one; all together may have `AT_ONCE` times as many."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0
        self.arriving: dict[Body, None] = {}  # the oldest first

    @asynccontextmanager
    async def hold(self, request: HTTPConnection, receive: Receive) -> AsyncIterator[Receive]:
        """Receive a body; gives the `receive` that hands it out. Raises an HTTPException above a limit."""
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.most:
            raise self._too_long()
        body = Body(anyio.CancelScope())
        try:
            await self._receive(body, receive)

            async def hand_out() -> Message:
                if not body.blocks:
                    return await receive()
                await checkpoint()  # to parse a long form takes time: let other requests have their turn
                block = bytes(body.blocks.popleft())
                return {"type": "http.request", "body": block, "more_body": bool(body.blocks)}

            yield hand_out
        finally:
            self.held -= body.size

    async def _receive(self, body: Body, receive: Receive) -> None:
        more, counted = True, 0
        self.arriving[body] = None
        with body.scope:
            body.scope.deadline = anyio.current_time() + PATIENCE
            try:
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    content, more = message.get("body", b""), message.get("more_body", False)
                    body.add(content)
                    self.held += len(content)
                    if body.size > self.most:
                        raise self._too_long()
                    self._make_room()
                    if body.size - counted >= LEAST:
                        counted, body.scope.deadline = body.size, anyio.current_time() + PATIENCE
            finally:
                self.arriving.pop(body, None)
        if body.dropped:
            raise HTTPException(503, "Too many bytes at once: try again in a second.", {"Retry-After": "1"})
        if body.scope.cancelled_caught:
            rate = LEAST / PATIENCE / 2**10
            raise HTTPException(408, f"The body of the request arrived at less than {rate:g} kB per second.")

    def _make_room(self) -> None:
        """Drop the bodies that have been arriving for longest: those of honest clients arrive fast."""
        while self.held > AT_ONCE * self.most and self.arriving:
            oldest = next(iter(self.arriving))
            del self.arriving[oldest]
            self.held -= oldest.size
            oldest.size, oldest.dropped = 0, True
            oldest.blocks.clear()
            oldest.scope.cancel()

    def _too_long(self) -> HTTPException:
        return HTTPException(413, f"A request may have at most {self.most // 2**20} MB.")
