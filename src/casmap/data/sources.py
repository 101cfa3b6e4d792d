"""Open the photos that DATA names on the command line: a folder, shards, or generated scenes."""

from pathlib import Path
from typing import Any, get_args

from casmap.data.folders import OptionalPath, PhotoFolder
from casmap.data.photos import PhotoSet
from casmap.data.scenes import MAX_CLASSES, Half, Scenes, Variant
from casmap.data.shards import Shards, are_shards
from casmap.errors import UserError, option

HELD_OUT = 1_000_000  # added to the seed of scenes for evaluation, so that none of them was used for training
_NUMBERS = {
    "classes": (2, MAX_CLASSES), "photos": (1, 10**7), "size": (32, 1024), "seed": (0, HELD_OUT - 1),
    "first_class": (0, 58),
}  # fmt: skip


def open_photos(
    data: str, held_out: bool = False, boxes: OptionalPath = None, masks: OptionalPath = None,
    parts: OptionalPath = None, split: str | None = None,
) -> PhotoSet:  # fmt: skip
    """Open a folder of photos in any layout of `PhotoFolder`, shards, or `scenes[:option=value,...]`.

    An example of scenes with options: scenes:variant=twins,photos=500,seed=3. held_out: other scenes than those for
    training.

    >>> open_photos("scenes:classes=5,photos=20").classes
    ['class-00', 'class-01', 'class-02', 'class-03', 'class-04']
    """
    name, _, options = data.partition(":")
    if are_shards(data):
        if boxes or masks or parts or split:
            raise UserError("Shards are for training only: boxes, masks, parts and splits need a folder of photos.")
        return Shards(data)
    if name != "scenes" or Path(data).is_dir():
        return PhotoFolder(data, boxes, masks, parts, split)
    if boxes or masks or parts:
        raise UserError(
            f"scenes have their own annotations: leave out {', '.join(map(option, ('boxes', 'masks', 'parts')))}."
        )
    if split:
        raise UserError("scenes have no splits: use another seed instead, as in scenes:seed=1.")
    known = _scene_options(options)
    known["seed"] = known.get("seed", 0) + HELD_OUT * held_out
    if held_out:
        known.setdefault("photos", 500)
    if known.get("first_class", 0) + known.get("classes", 40) > MAX_CLASSES:
        raise UserError(f"first_class + classes must be at most {MAX_CLASSES}, the number of classes of scenes.")
    return Scenes(**known)


def _scene_options(text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        key, _, value = pair.partition("=")
        if key in _NUMBERS and value.isdecimal() and _NUMBERS[key][0] <= int(value) <= _NUMBERS[key][1]:
            options[key] = int(value)
        elif (key == "variant" and value in get_args(Variant)) or (key == "destroyed" and value in get_args(Half)):
            options[key] = value
        elif key in _NUMBERS:
            raise UserError(f"In {pair!r}, {key} must be a whole number from {_NUMBERS[key][0]} to {_NUMBERS[key][1]}.")
        else:
            texts = f"variant={'|'.join(get_args(Variant))}, destroyed={'|'.join(get_args(Half))}"
            raise UserError(f"scenes has no option {pair!r}; choose from {', '.join(_NUMBERS)}, {texts}.")
    return options
