"""The parameters and responses of the HTTP API, as its OpenAPI description shows them."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import File, Query, UploadFile
from pydantic import BaseModel, Field

from casmap.annotations.format import FORMATS
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
Rle = Annotated[bool, Query(description="coco: write exact run-length masks instead of polygons")]
Ending = Annotated[str, Query(max_length=20, description="return only files whose names end so, e.g. .txt for yolo")]


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
    mask: str = Field(
        description="the mask as an 8-bit PNG in base64, in the photo's shape, its longer side at most 640 pixels"
    )


class Failed(BaseModel):
    """The error of a request or of a photo."""

    detail: str


class Health(BaseModel):
    """The state of the server."""

    status: Literal["ok"] = "ok"
    version: str = __version__
