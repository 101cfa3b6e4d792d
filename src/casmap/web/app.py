"""The server: photos in, masks out; documented as OpenAPI, nothing fetched, nothing written."""

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Depends, FastAPI, File, HTTPException, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from casmap.data.free_photos import free_photos
from casmap.data.resizing import resize
from casmap.errors import UnreadableImage, UserError
from casmap.inference.mapper import SaliencyMapper, fit
from casmap.inference.saliency_map import SaliencyMap
from casmap.io.images import encode_png, open_image, size_of_bytes
from casmap.version import __version__
from casmap.web.limits import Gate, Limits, Room

STATIC = Path(__file__).parent / "static"
PAGE = ("index.html", "style.css", "look.js", "app.js")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Nothing from outside this machine, and nothing inside the page that did not come with it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Box = Annotated[list[int], Field(min_length=4, max_length=4)]
Photos = Annotated[list[UploadFile], File(min_length=1)]
View = Literal["mask", "overlay", "masked-in", "masked-out", "inpainted"]
Alpha = Annotated[float, Query(ge=0, le=100, description="the binary mask keeps m >= alpha * mean(m)")]


class Mapping(BaseModel):
    """A mapping that the server holds."""

    name: str
    size: int = Field(description="side of the pictures that the network sees")
    classes: int
    predicts: bool = Field(description="whether it tells a class")


class Map(BaseModel):
    """The evidence in a photo."""

    mapping: str
    width: int = Field(description="of the photo, upright")
    height: int
    area: float = Field(description="mean of the mask")
    box: Box | None = Field(description="x0, y0, x1, y1 around the largest component, as edges")
    label: str | None = Field(description="the class that the mapping's classifier sees")
    mask: str = Field(description="the mask as a PNG, 8 bits, in base64; as large as the network's pictures")


class Failed(BaseModel):
    """Why a photo has no map."""

    detail: str


class Health(BaseModel):
    """That the server is there."""

    status: Literal["ok"] = "ok"
    version: str = __version__


def create_app(
    mappers: dict[str, SaliencyMapper], limits: Limits | None = None, hosts: frozenset[str] | None = LOOPBACK
) -> FastAPI:
    """The application for mappings by name; hosts: names that requests may call it by, None for any."""
    limits = limits or Limits()
    room = Room(limits)
    app = FastAPI(
        title="casmap",
        version=__version__,
        summary="All the evidence in a photo: a photo in, a mask and a box out, no class asked for.",
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.add_middleware(Gate, limits=limits, hosts=hosts)
    default = next(iter(mappers))
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": Failed, "description": text}
        for status, text in {
            400: "the request cannot be understood", 403: "from elsewhere", 404: "no such mapping",
            408: "it took too long", 413: "too many bytes or pixels", 422: "no photo, or an option out of its range",
            503: "too many requests at once",
        }.items()
    }  # fmt: skip

    def chosen(mapping: Annotated[str, Query(description="its name; the first, if none is given")] = default) -> str:
        if mapping not in mappers:
            raise HTTPException(404, f"There is no mapping {mapping!r} here: {', '.join(mappers)}.")
        return mapping

    Chosen = Annotated[str, Depends(chosen)]  # noqa: N806 (a type)

    async def sent(request: Request) -> bytes:
        content = await request.body()
        if not content:
            raise HTTPException(422, "The request has no photo in its body.")
        return content

    Sent = Annotated[bytes, Depends(sent)]  # noqa: N806 (a type)
    body = {
        "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
    }

    def find(content: bytes, name: str) -> tuple[SaliencyMap, Map]:
        size = size_of_bytes(content)
        if size is not None and size[0] * size[1] > limits.pixels:
            raise HTTPException(413, f"A photo may have at most {limits.pixels / 1e6:g} million pixels.")
        image = open_image(content)
        mapper = mappers[name]
        masks, logits = mapper.masks(resize(image, mapper.size, "squash")[None])
        found = SaliencyMap(image, fit(masks[0], *image.shape[1::-1]))
        label = mapper.titles[int(logits[0].argmax())] if mapper.network.predicts else None
        grey, box = np.rint(255 * np.clip(masks[0], 0, 1)).astype(np.uint8), found.box()
        return found, Map(
            mapping=name, width=image.shape[1], height=image.shape[0], area=round(found.area, 4),
            box=None if box is None else list(box),
            label=label, mask=base64.b64encode(encode_png(grey)).decode(),
        )  # fmt: skip

    @app.get("/api/health", tags=["server"])
    async def health() -> Health:
        """Say that the server is there."""
        return Health()

    @app.get("/api/mappings", tags=["server"])
    async def mappings() -> list[Mapping]:
        """Name the mappings, the one that is taken by default first."""
        return [
            Mapping(name=name, size=mapper.size, classes=len(mapper.classes), predicts=mapper.network.predicts)
            for name, mapper in mappers.items()
        ]

    @app.post("/api/map", responses=errors, openapi_extra=body, tags=["maps"])
    async def make_map(photo: Sent, mapping: Chosen) -> Map:
        """Map a photo, sent as the body of the request: JPEG, PNG, WebP, TIFF and others."""
        return (await room.work(find, photo, mapping))[1]

    @app.post(
        "/api/view", responses=errors | {200: {"content": {"image/png": {}}}}, response_class=Response,
        openapi_extra=body, tags=["maps"],
    )  # fmt: skip
    async def make_view(photo: Sent, mapping: Chosen, view: View = "overlay", alpha: Alpha = 1.0) -> Response:
        """Draw a photo's mask, overlay, masked-in, masked-out or inpainted picture, as PNG."""

        def draw() -> bytes:
            found, _ = find(photo, mapping)
            return encode_png(found.view(view, alpha))

        return Response(await room.work(draw), media_type="image/png")

    @app.post("/api/batch", responses=errors, tags=["maps"])
    async def make_batch(photos: Photos, mapping: Chosen) -> list[Map | Failed]:
        """Map several photos, sent as a form; one that cannot be read has a sentence in its place."""
        if len(photos) > limits.photos:
            raise HTTPException(413, f"A batch may have at most {limits.photos} photos.")
        answers: list[Map | Failed] = []
        for photo in photos:
            try:
                answers.append((await room.work(find, await photo.read(), mapping))[1])
            except UnreadableImage as error:
                answers.append(Failed(detail=str(error)))
            except HTTPException as error:
                if error.status_code != 413:
                    raise
                answers.append(Failed(detail=str(error.detail)))
        return answers

    bundled = _bundled()

    @app.get("/api/photos", tags=["free photos"])
    async def photos() -> list[str]:
        """Name the free photos that can be tried."""
        return list(bundled)

    @app.get("/api/photos/{name}", responses={404: errors[404]}, response_class=FileResponse, tags=["free photos"])
    async def photo(name: str) -> FileResponse:
        """Give one of them."""
        if name not in bundled:
            raise HTTPException(404, f"There is no photo {name!r}.")
        return FileResponse(bundled[name])

    @app.exception_handler(UserError)
    async def user_error(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        told = [f"{'.'.join(map(str, one['loc'][1:])) or 'request'}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"detail": "; ".join(told)}, 422)

    @app.middleware("http")
    async def guarded(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    @app.get("/{file}", include_in_schema=False)
    async def page(file: str) -> FileResponse:
        if file not in PAGE:
            raise HTTPException(404, "There is nothing here.")
        return FileResponse(STATIC / file)

    @app.get("/", include_in_schema=False)
    async def begin() -> FileResponse:
        return FileResponse(STATIC / PAGE[0])

    return app


def _bundled() -> dict[str, Path]:
    try:
        return {path.name: path for path in free_photos()}
    except UserError:  # without scikit-image there are none
        return {}
