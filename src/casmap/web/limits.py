"""Limits of requests: size, pixels, time and number at once. A request above a limit gets an error with the limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from starlette.exceptions import HTTPException

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
