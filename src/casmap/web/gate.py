"""The gate: checks who asks, and receives the whole body, before the application sees a request."""

from asyncio import CancelledError

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from casmap.web.access import Access
from casmap.web.bodies import Bodies
from casmap.web.limits import Limits


class Gate:
    """Middleware that rejects requests which are not allowed, too long or too slow."""

    def __init__(self, app: ASGIApp, limits: Limits, access: Access) -> None:
        self.app, self.access, self.bodies = app, access, Bodies(limits.bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it on with its body."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request, started = HTTPConnection(scope), False
        cookie = self.access.cookie(request)

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            if cookie is not None and message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Set-Cookie", cookie)
            await send(message)

        try:
            self.access.check(request)
            async with self.bodies.hold(request, receive) as body:
                return await self.app(scope, body, sending)
        except ClientDisconnect:
            return None
        except HTTPException as error:
            refusal = error
        except CancelledError:  # by uvicorn, when the server stops
            refusal = HTTPException(503, "The server was stopped.")
        if not started:
            await JSONResponse({"detail": refusal.detail}, refusal.status_code, refusal.headers)(scope, receive, send)
