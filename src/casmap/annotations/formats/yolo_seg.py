"""YOLO with outlines (segments) instead of boxes."""

from functools import partial

from casmap.annotations.format import FORMATS, Format
from casmap.annotations.formats import yolo

FORMATS.register("yolo-seg")(Format(yolo.recognises, yolo.read, partial(yolo.write, outlines=True), ("val",)))
