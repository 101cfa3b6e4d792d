"""Connections with deadlines. uvicorn itself waits forever for half a request, or until half a response is read."""

import json
from asyncio import Transport
from types import FrameType
from typing import Literal, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from casmap.web.bodies import LEAST, PATIENCE

CONNECTIONS = 128  # at once
GRACE = 5  # seconds for requests in progress, when the server stops

Awaited = Literal["head", "body", "response", ""]


class Connection(H11Protocol):
    """A connection that is closed if its client keeps the server waiting, or if it is one too many.

    A client has `PATIENCE` seconds to send the head of a request, and as long for each `LEAST` bytes of the response.
    `Bodies` has the same deadline for the body of a request.
    """

    seen: tuple[Awaited, RequestResponseCycle | None] | None = None
    since, left = 0.0, 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin; if there are too many connections, close the one that has kept the server waiting for longest."""
        super().connection_made(transport)
        self.look()
        if len(self.connections) > CONNECTIONS:
            others = cast("set[Connection]", self.connections)
            waiting = {one: awaited for one in list(others) if (awaited := one.look())}
            longest = min(waiting, key=lambda one: (waiting[one] != "head", one.since))
            longest.transport.abort()
            others.discard(longest)  # now: more connections can begin before it is lost

    def look(self) -> Awaited:
        """What the server awaits from the client, empty if nothing; closes the connection if that takes too long."""
        now, left = self.loop.time(), self.transport.get_write_buffer_size()
        awaited: Awaited = ""
        if left:
            awaited = "response"
        elif self.cycle is None or self.cycle.response_complete:
            awaited = "head"
        elif self.cycle.more_body:
            awaited = "body"
        if self.seen != (awaited, self.cycle) or left <= self.left - LEAST:
            self.seen, self.since, self.left = (awaited, self.cycle), now, left
        elif awaited in ("head", "response") and now - self.since > PATIENCE:
            self.transport.abort()
        return awaited

    def resume_writing(self) -> None:
        """Note that the client has read what was buffered."""
        super().resume_writing()
        self.seen = None

    def shutdown(self) -> None:
        """Close the connection when the server stops, unless it is the server that has something to do."""
        if self.look() in ("head", "body"):
            self.transport.abort()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Reject what is not HTTP, with the headers of all responses."""
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"connection", b"close"),
        ]
        body = json.dumps({"detail": msg}).encode()
        events = h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body)
        for event in (*events, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """A server that looks after its connections, and returns from `run` when a signal stops it."""

    async def on_tick(self, counter: int) -> bool:
        """Look at all connections once a second."""
        if counter % 10 == 0:
            for connection in cast("list[Connection]", list(self.server_state.connections)):
                connection.look()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at once if it is the second signal. uvicorn would raise the signal again afterwards."""
        self.force_exit = self.should_exit
        self.should_exit = True
