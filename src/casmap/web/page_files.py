"""The files of the page, and the free sample photos that it offers."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse

from casmap.data.free_photos import free_photos
from casmap.errors import UserError
from casmap.web.schema import Failed

STATIC = Path(__file__).parent / "static"
FIRST = "index.html"  # what the address / returns


def page_routes() -> APIRouter:
    """Create the routes of the page and of its sample photos."""
    router = APIRouter()
    bundled: dict[str, Path] = {}
    with suppress(UserError):  # they come with scikit-image
        bundled = {path.name: path for path in free_photos()}
    missing: dict[int | str, dict[str, Any]] = {404: {"model": Failed, "description": "unknown name"}}

    @router.get("/api/photos", tags=["free photos"])
    async def photos() -> list[str]:
        """List the free sample photos."""
        return list(bundled)

    @router.get("/api/photos/{name}", responses=missing, response_class=FileResponse, tags=["free photos"])
    async def photo(name: str) -> FileResponse:
        """Return a free sample photo."""
        if name not in bundled:
            raise HTTPException(404, f"There is no photo {name!r}: /api/photos lists them.")
        return FileResponse(bundled[name])

    async def page(request: Request) -> FileResponse:
        return FileResponse(STATIC / (request.url.path.strip("/") or FIRST))

    for file in ("", *sorted(path.name for path in STATIC.iterdir())):
        router.add_api_route(f"/{file}", page, include_in_schema=False)
    return router
