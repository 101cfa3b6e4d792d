"""The parameters and responses of the HTTP API, as its OpenAPI description shows them."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import File, Form, Query, Request, UploadFile
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from casmap.annotations.format import FORMATS
from casmap.errors import UserError
from casmap.inference.edges import Edges
from casmap.io.reading import shown
from casmap.io.size_limits import MAX_SIDE
from casmap.version import __version__

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS.names)]  # with those of plugins
Box = Annotated[list[int], Field(min_length=4, max_length=4)]
Photos = Annotated[list[UploadFile], File(min_length=1)]
View = Literal["mask", "overlay", "masked-in", "masked-out", "inpainted", "cutout"]
Fixed = Annotated[float | None, Query(ge=0, le=1, description="the binary mask keeps m >= threshold (default: 0.5)")]
Alpha = Annotated[float | None, Query(ge=0, le=100, description="instead of threshold: m >= alpha * mean(m)")]
Labels = Annotated[
    Literal["none", "predicted"], Query(description="class of the objects; none: every object has the class object")
]
Fitted = Annotated[Edges | None, Query(description="edges of the mask: sharp (default) or smooth")]
Rle = Annotated[bool, Query(description="coco: write exact run-length masks instead of polygons")]
Ending = Annotated[str, Query(max_length=20, description="return only files whose names end so, e.g. .txt for yolo")]


MOST_BOXES = 100  # of a photo: as many objects of 1 % of it can be found, too
Side = Annotated[int, Field(ge=0, le=MAX_SIDE)]
Boxes = Annotated[list[tuple[Side, Side, Side, Side]], Field(max_length=MOST_BOXES)]
Corrections = Annotated[
    str,
    Form(
        max_length=2**20,
        description="JSON: for each photo, the boxes [x0, y0, x1, y1] of its objects after a correction, or null; an "
        "object has the pixels of the component with its box, or else of the binary mask inside its box",
    ),
]
_corrections = TypeAdapter(list[Boxes | None])


def parse_corrections(text: str, photos: int) -> Sequence[list[tuple[int, int, int, int]] | None]:
    """The corrected boxes of each photo; None for a photo that is not corrected.

    >>> parse_corrections("[null, [[0, 2, 8, 9]]]", 2), parse_corrections("", 2)
    ([None, [(0, 2, 8, 9)]], [None, None])
    """
    try:
        found = _corrections.validate_json(text) if text else [None] * photos
    except ValidationError:
        found = []
    if len(found) != photos:
        boxes = f"null or at most {MOST_BOXES} boxes [x0, y0, x1, y1]"
        raise UserError(f"The field corrections must be a JSON list with {boxes} for each of {photos} photos.")
    return found


def check_options(request: Request) -> None:
    """Raise UserError if a request has an option that its address does not take: a misspelt one has no effect."""
    path, method = request.scope["route"].path, request.method.lower()
    described = request.app.openapi()["paths"].get(path, {}).get(method, {}).get("parameters", [])
    known = [one["name"] for one in described if one["in"] == "query"]
    unknown = next((name for name in request.query_params if name not in known), None)
    if known and unknown is not None:
        near = get_close_matches(unknown, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}."
        raise UserError(f"{path} has no option {shown(unknown)}: {advice}")


class Mapping(BaseModel):
    """A mapping that the server has loaded."""

    name: str
    size: int = Field(description="side of the network's input, in pixels")
    classes: int = Field(description="number of classes")
    predicts: bool = Field(description="whether it predicts the class of a photo")


class Map(BaseModel):
    """The saliency map of a photo."""

    mapping: str
    width: int = Field(description="of the photo in pixels, after its EXIF rotation")
    height: int = Field(description="of the photo in pixels")
    area: float = Field(description="mean of the mask, 0 to 1")
    box: Box | None = Field(
        description="x0, y0, x1, y1 around the largest component, in pixels; x1, y1 are exclusive; null: no object"
    )
    flat: bool = Field(description="whether the mask is constant: no threshold finds an object")
    label: str | None = Field(description="the predicted class; null if the mapping predicts none")
    confidence: float | None = Field(description="the probability of the class, 0 to 1")
    mask: str = Field(
        description="the mask as an 8-bit PNG in base64, in the photo's shape, its longer side at most 640 pixels"
    )


class Raw(BaseModel):
    """The output of the network for a photo, before it is fitted to the photo."""

    mapping: str
    width: int = Field(description="of the photo in pixels, after its EXIF rotation")
    height: int = Field(description="of the photo in pixels")
    size: int = Field(description="side of the network's input, in pixels")
    side: int = Field(description="values along a side of the decoder's output")
    values: str = Field(description="the decoder's output, side x side 32-bit floats, little-endian, in base64")
    label: str | None = Field(description="the predicted class; null if the mapping predicts none")
    confidence: float | None = Field(description="the probability of the class, 0 to 1")


class Failed(BaseModel):
    """The error of a request or of a photo."""

    detail: str


class Health(BaseModel):
    """The state of the server."""

    status: Literal["ok"] = "ok"
    version: str = __version__
