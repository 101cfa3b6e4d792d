"""Label Studio's labelling interface: which regions a project asks for, and the objects of a photo as such regions."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from casmap.annotations.format import Which
from casmap.annotations.formats.label_studio import KINDS, region
from casmap.annotations.types import Skipped
from casmap.annotations.xml_files import parse_xml_text
from casmap.errors import UserError
from casmap.inference.components import Threshold
from casmap.inference.mapper import Mapped
from casmap.inference.objects import SMALLEST, objects_of

WANTED = "The labelling interface needs RectangleLabels, PolygonLabels or BrushLabels for an Image."


@dataclass(frozen=True)
class Control:
    """A tag of the labelling interface that takes regions.

    kind: of `KINDS`. name: its own. to: the name of the image's tag. key: of the photo's address in a task's data.
    labels: by what they are called, in lower case: their own name, and the predicted classes that they stand for.
    """

    kind: str
    name: str
    to: str
    key: str
    labels: dict[str, str] = field(default_factory=dict)
    objects: Which = "largest"
    min_area: float = SMALLEST
    threshold: Threshold = field(default_factory=Threshold)

    def label(self, address: str, predicted: Sequence[str]) -> str:
        """Choose the label of a photo's objects; "" if nothing decides.

        It is the label that a folder of the photo is called by, the innermost first; else the one of a predicted class;
        else the only one.
        """
        names = (*reversed(folders_of(address)), *predicted)
        found = next((self.labels[name.lower()] for name in names if name.lower() in self.labels), "")
        only = set(self.labels.values())
        return found or (only.pop() if len(only) == 1 else "")


def controls_of(config: str) -> list[Control]:
    """Read the labelling interface of a project; raise UserError if casmap has no regions for it.

    Tags may have the attributes model_threshold, model_alpha, model_objects and model_min_area, and labels
    predicted_values: classes of the mapping, separated by commas.

    >>> cat = '<Label value="Cat" predicted_values="tabby"/>'
    >>> box = f'<RectangleLabels name="box" toName="photo">{cat}</RectangleLabels>'
    >>> (found,) = controls_of(f'<View><Image name="photo" value="$image"/>{box}</View>')
    >>> found.kind, found.to, found.key, found.labels
    ('rectanglelabels', 'photo', 'image', {'cat': 'Cat', 'tabby': 'Cat'})
    """
    try:
        root = parse_xml_text(config)
    except Skipped as error:
        raise UserError(f"The labelling interface cannot be read: {error.reason}.") from error
    images = {
        tag.get("name", ""): tag.get("value", "").removeprefix("$") for tag in root.iter() if tag.tag.lower() == "image"
    }
    found = []
    for tag in root.iter():
        to = next((name for name in tag.get("toName", "").split(",") if images.get(name)), None)
        if tag.tag.lower() in KINDS and to is not None:
            found.append(_control(tag, to, images[to]))
    if not found:
        raise UserError(WANTED)
    return found


def _control(tag: ElementTree.Element, to: str, key: str) -> Control:
    labels: dict[str, str] = {}
    for each in (each for each in tag.iter() if each.tag.lower() == "label"):
        value: str = each.get("value", "")
        name: str = each.get("alias", "") or value
        for called in (name, value, *each.get("predicted_values", "").split(",")):
            if called.strip():
                labels.setdefault(called.strip().lower(), name)
    which = tag.get("model_objects", "largest")
    if which not in ("largest", "all"):
        raise UserError(f"model_objects must be largest or all, not {which!r}.")
    cut = Threshold(_number(tag, "model_alpha"), _number(tag, "model_threshold"))
    least = _number(tag, "model_min_area")
    return Control(
        tag.tag.lower(), tag.get("name", ""), to, key, labels, "all" if which == "all" else "largest",
        SMALLEST if least is None else least, cut,
    )  # fmt: skip


def _number(tag: ElementTree.Element, name: str) -> float | None:
    if (text := tag.get(name)) is None:
        return None
    with suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise UserError(f"{name} must be a number, not {text!r}.")


def folders_of(address: str) -> list[str]:
    """Return the folders in the address of a photo, the outermost first.

    >>> folders_of("/data/local-files/?d=photos/old%20cat/1.jpg"), folders_of("/data/upload/3/1.jpg")
    (['photos', 'old cat'], ['data', 'upload', '3'])
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return []
    path = parse_qs(parts.query).get("d", [""])[0] or unquote(parts.path)
    return [folder for folder in path.split("/")[:-1] if folder]


def regions_of(controls: Sequence[Control], address: str, mapped: Mapped) -> list[dict[str, Any]]:
    """Return the objects of a photo as regions of all these controls."""
    mask, regions = mapped.full_mask(), []
    predicted = [mapped.label] if mapped.label else []
    for control in controls:
        label = control.label(address, predicted)
        found = objects_of(mask, label, control.objects, control.min_area, control.threshold)
        regions += [
            region(
                one, mapped.width, mapped.height, control.kind, control.name, control.to, label,
                f"{control.name}-{number}",
            )
            for number, one in enumerate(found)
        ]  # fmt: skip
    return regions
