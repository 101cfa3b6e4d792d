"""The web application: an HTTP API with an OpenAPI description, and the page. It stores no photo."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, FastAPI, Query, Request, UploadFile
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from casmap.annotations.format import Which
from casmap.annotations.labelled import Labelled
from casmap.errors import TooLarge, UnreadableImage, UserError
from casmap.inference.components import Threshold, is_flat
from casmap.inference.edges import STEP, Edges
from casmap.inference.mapper import Mapped, SaliencyMapper
from casmap.inference.objects import objects_in, objects_of
from casmap.inference.pipeline import LEAST
from casmap.inference.views import grey, shrunk
from casmap.io.images import encode_png
from casmap.io.opener import Opener
from casmap.io.size_limits import MAX_SIDE
from casmap.tools.annotate import UNNAMED
from casmap.version import __version__
from casmap.web.access import LOOPBACK, Access
from casmap.web.annotation_files import MEDIA_TYPES, photo_names, write_annotations
from casmap.web.gate import Gate
from casmap.web.label_studio_photos import LabelStudio
from casmap.web.label_studio_routes import label_studio_routes
from casmap.web.limits import Limits, WorkQueue
from casmap.web.page_files import page_routes
from casmap.web.problems import ANSWERS
from casmap.web.schema import (
    Alpha,
    Corrections,
    Ending,
    Failed,
    Fitted,
    Fixed,
    FormatName,
    Health,
    Labels,
    Map,
    Mapping,
    Photos,
    Raw,
    Rle,
    View,
    check_options,
    parse_corrections,
)  # fmt: skip

T = TypeVar("T")

MASK_SIDE = 640  # pixels of the longer side of a mask in a response
# The page loads nothing from other servers and runs no inline code.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Of every response: `serve` gives them to uvicorn, which adds them to its own error responses, too.
HEADERS = {
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY, "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
ERRORS = {
    400: "malformed request", 401: "no token", 403: "request for another host or from another page",
    404: "unknown address or name", 408: "time limit exceeded", 413: "too many bytes, pixels or photos",
    422: "unreadable photo or invalid option", 503: "too many requests at once",
}  # fmt: skip
ANNOTATIONS: dict[str, Any] = {
    "content": {kind: {} for kind in MEDIA_TYPES.values()},
    "headers": {
        "Casmap-Objects": {"description": "number of objects in the file", "schema": {"type": "integer"}},
        "Casmap-Left-Out": {"description": "JSON list: an error for each skipped photo", "schema": {"type": "string"}},
    },
}


def create_app(
    mappers: dict[str, SaliencyMapper],
    limits: Limits | None = None,
    hosts: frozenset[str] | None = LOOPBACK,
    addresses: bool = False,
    token: str | None = None,
    label_studio: tuple[LabelStudio, str] | None = None,
) -> FastAPI:
    """Create the application for mappings by name. hosts, addresses, token: as in `Access`.

    label_studio: the server that may ask for predictions, and the version of the default mapping. The application's
    processes, `state.opener`, start with it or before.
    """
    limits = limits or Limits()
    queue, opener = WorkQueue(limits), Opener(limits.working, limits.pixels)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        with opener:
            opener.start(limits.working)
            yield

    app = FastAPI(
        title="casmap", version=__version__, openapi_url="/api/openapi.json", lifespan=running,
        summary="Saliency maps of photos: send a photo, get its mask and box. No class has to be given.",
        docs_url=None, redoc_url=None,  # these pages load scripts from other servers
        dependencies=[Depends(check_options)],
    )  # fmt: skip
    app.state.opener = opener
    app.add_middleware(Gate, limits=limits, access=Access(hosts, addresses, token))
    default = next(iter(mappers))
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": Failed, "description": text} for status, text in ERRORS.items()
    }

    def chosen(mapping: Annotated[str, Query(description="name of the mapping (default: the first)")] = default) -> str:
        if mapping not in mappers:
            raise HTTPException(404, f"There is no mapping {mapping!r}: choose from {', '.join(mappers)}.")
        return mapping

    Chosen = Annotated[str, Depends(chosen)]  # noqa: N806 (a type)

    async def sent(request: Request) -> bytes:
        content = await request.body()
        if not content:
            raise HTTPException(422, "The request body contains no photo.")
        return content

    Sent = Annotated[bytes, Depends(sent)]  # noqa: N806 (a type)
    binary = {"schema": {"type": "string", "format": "binary"}}
    body = {"requestBody": {"required": True, "content": {"image/*": binary}}}

    def map_photo(content: bytes, mapping: str, least: int | None = None, edges: Edges | None = None) -> Mapped:
        in_time = partial(opener, seconds=queue.seconds_left())
        (found,) = mappers[mapping].map([content], least=least, opener=in_time)
        if isinstance(found, TooLarge):
            most = f"{limits.pixels / 1e6:g} million pixels, and {MAX_SIDE:,} on a side"
            raise HTTPException(413, f"A photo may have at most {most}.")
        if isinstance(found, UnreadableImage):
            raise found
        return found if edges is None else replace(found, edges=edges)

    def describe(content: bytes, mapping: str) -> Map:
        mapped = map_photo(content, mapping)
        found = mapped.saliency_map()
        box, small = found.box(), shrunk(found.mask, MASK_SIDE / max(found.mask.shape))
        mask = base64.b64encode(encode_png(grey(small))).decode()
        return Map(
            mapping=mapping, width=mapped.width, height=mapped.height, area=round(found.area, 4),
            box=None if box is None else list(box), flat=is_flat(found.mask), label=mapped.label,
            confidence=mapped.confidence, mask=mask,
        )  # fmt: skip

    def describe_raw(content: bytes, mapping: str) -> Raw:
        found = map_photo(content, mapping)
        values = found.mask[::STEP, ::STEP].astype("<f4")
        return Raw(
            mapping=mapping, width=found.width, height=found.height, size=mappers[mapping].size, side=len(values),
            values=base64.b64encode(values.tobytes()).decode(), label=found.label, confidence=found.confidence,
        )  # fmt: skip

    async def work_each(photos: list[UploadFile], work: Callable[[bytes, int], T]) -> list[T | Exception]:
        """Call `work` with the content and number of each photo; the result of an unusable photo is its error."""
        if len(photos) > limits.photos:
            raise HTTPException(413, f"A batch may have at most {limits.photos} photos.")
        made: list[T | Exception] = []
        seen_slow = False
        for number, photo in enumerate(photos):
            try:
                made.append(await queue.work(work, await photo.read(), number))
            except (UnreadableImage, HTTPException) as error:
                slow = isinstance(error, HTTPException) and error.status_code == 408
                if isinstance(error, HTTPException) and error.status_code != 413 and not (slow and not seen_slow):
                    raise  # a second slow photo ends the request, which otherwise could last minutes
                seen_slow = seen_slow or slow
                made.append(error)
        return made

    @app.get("/api/health", tags=["server"])
    async def health() -> Health:
        """Check that the server is running."""
        return Health()

    @app.get("/api/mappings", tags=["server"])
    async def mappings() -> list[Mapping]:
        """List the mappings, the default first."""
        return [
            Mapping(name=name, size=mapper.size, classes=len(mapper.classes), predicts=mapper.network.predicts)
            for name, mapper in mappers.items()
        ]

    @app.post("/api/map", responses=errors, openapi_extra=body, tags=["maps"])
    async def make_map(photo: Sent, mapping: Chosen) -> Map:
        """Compute the saliency map of a photo, sent as the request body: JPEG, PNG, WebP, TIFF and others."""
        return await queue.work(describe, photo, mapping)

    @app.post("/api/raw", responses=errors, openapi_extra=body, tags=["maps"])
    async def make_raw(photo: Sent, mapping: Chosen) -> Raw:
        """Run the network on a photo; the page fits its output to the photo by itself."""
        return await queue.work(describe_raw, photo, mapping)

    @app.post(
        "/api/view", responses=errors | {200: {"content": {"image/png": {}}}}, response_class=Response,
        openapi_extra=body, tags=["maps"],
    )  # fmt: skip
    async def make_view(
        photo: Sent, mapping: Chosen, view: View = "overlay", threshold: Fixed = None, alpha: Alpha = None,
        edges: Fitted = None,
    ) -> Response:  # fmt: skip
        """Return a view of a photo as PNG: mask, overlay, masked-in, masked-out, inpainted or cutout."""
        cut = Threshold(alpha, threshold)

        def draw() -> bytes:
            found = map_photo(photo, mapping, edges=edges).saliency_map()
            return encode_png(found.view(view, cut.alpha, cut.fixed))

        return Response(await queue.work(draw), media_type="image/png")

    @app.post("/api/batch", responses=errors, tags=["maps"])
    async def make_batch(photos: Photos, mapping: Chosen) -> list[Map | Failed]:
        """Compute the saliency maps of several photos, sent as a form; an unreadable or slow photo gives its error."""
        made = await work_each(photos, lambda content, _: describe(content, mapping))
        return [Failed(detail=_sentence(one)) if isinstance(one, Exception) else one for one in made]

    @app.post("/api/annotations", responses=errors | {200: ANNOTATIONS}, response_class=Response, tags=["maps"])
    async def make_annotations(
        photos: Photos, mapping: Chosen, format: FormatName, threshold: Fixed = None, alpha: Alpha = None,
        edges: Fitted = None, objects: Which = "largest", classes: Labels = "none", rle: Rle = False,
        ending: Ending = "", corrections: Corrections = "",
    ) -> Response:  # fmt: skip
        """Annotate photos, sent as a form; returns the file of the format, or a ZIP if the format has several files."""
        if classes == "predicted" and not mappers[mapping].network.predicts:
            raise UserError("This mapping predicts no classes: use classes=none.")
        names, cut = photo_names(photo.filename for photo in photos), Threshold(alpha, threshold)

        corrected = parse_corrections(corrections, len(photos))

        def label(content: bytes, number: int) -> Labelled:
            boxes, name = corrected[number], names[number]
            found = map_photo(content, mapping, LEAST if boxes is None else None, edges)  # corrected at full size
            seen = (found.label if classes == "predicted" else None) or UNNAMED
            if boxes is None:
                parts = objects_of(found.full_mask(), seen, objects, threshold=cut)
            else:
                parts = objects_in(found.full_mask(), seen, boxes, cut, queue.check_time)
            return Labelled(Path(name), name, found.width, found.height, tuple(parts))

        made = await work_each(photos, label)
        good = [(one, sent.file) for one, sent in zip(made, photos, strict=True) if isinstance(one, Labelled)]
        bad = {name: one for name, one in zip(names, made, strict=True) if isinstance(one, Exception)}
        if not good:
            raise next(iter(bad.values()))
        try:
            file, content = await queue.work(lambda: write_annotations(good, format=format, rle=rle, ending=ending))
        except (OSError, UserError) as error:
            cause = error.__cause__ or error  # casmap.io.atomic makes a UserError of it, with the path
            if not isinstance(cause, OSError):
                raise
            reason = cause.strerror or cause
            raise HTTPException(503, f"The server cannot write to its temporary folder: {reason}.") from error
        headers = {
            "Content-Disposition": f"attachment; filename*=utf-8''{quote(file)}",
            "Casmap-Objects": str(sum(len(one.objects) for one, _ in good)),
            "Casmap-Left-Out": json.dumps([f"{name}: {_sentence(one)}" for name, one in bad.items()]),
        }
        return Response(content, headers=headers, media_type=MEDIA_TYPES.get(Path(file).suffix, MEDIA_TYPES[""]))

    if label_studio is not None:
        served = partial(map_photo, mapping=default, least=LEAST)
        app.include_router(label_studio_routes(*label_studio, served, queue), responses=errors)

    app.include_router(page_routes())
    for kind, answer in ANSWERS.items():
        app.add_exception_handler(kind, answer)
    return app


def _sentence(error: Exception) -> str:
    return str(error.detail) if isinstance(error, HTTPException) else str(error)
