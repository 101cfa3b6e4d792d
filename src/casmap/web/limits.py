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
from starlette.exceptions import HTTPException

from casmap.errors import TooSlow

T = TypeVar("T")
END: ContextVar[float] = ContextVar("end", default=math.inf)  # of the time that a request has


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    bytes: of a request. pixels: of a photo. seconds: of work for a photo. working, waiting: requests at once.
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

    def check_time(self) -> None:
        """Raise TooSlow if the request has no time left; to be called by long work that can end between two steps."""
        if self.seconds_left() <= 0:
            raise TooSlow("The request takes too long.")

    def seconds_left(self) -> float:
        """Return the seconds that the request has left; to be called by the function that `work` runs."""
        return END.get() - time.monotonic()
