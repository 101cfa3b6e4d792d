"""Arguments and options that several commands share, and the options of a recipe."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from casmap.training.options_of_0_1_0 import REMOVED, RENAMED
from casmap.training.recipes import CHOICES, GROUPS, Recipe

RecipeName = Annotated[
    str | None,
    typer.Option(help="paper, quick, photos, seeds, scans, or a TOML or YAML file (default: chosen automatically)"),
]
Out = Annotated[Path, typer.Option(help="folder to write to")]
DATA = "photos: a folder of class folders; an ILSVRC, VOC or COCO folder; or scenes[:options]"
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA)]
Mappings = Annotated[
    list[Path] | None, typer.Option(help="mapping file; repeat the option for several (default: the shipped mapping)")
]
Mapping = Annotated[
    Path | None, typer.Option(help="mapping file, .safetensors or .onnx (default: the shipped mapping)")
]
Photos = Annotated[
    list[str], typer.Argument(metavar="PHOTOS", help="photos, folders of photos, or patterns such as 'trip/*.jpg'")
]
Threshold = Annotated[
    float | None, typer.Option(min=0, max=1, help="the binary mask keeps m >= threshold (default: 0.5)")
]
Alpha = Annotated[
    float | None,
    typer.Option(min=0, help="instead of --threshold: m >= alpha * mean(m), the paper's rule with alpha 1"),
]
Edges = Annotated[
    Literal["sharp", "smooth"] | None,
    typer.Option(help="edges of the masks: sharp, as in the photo, or smooth, only interpolated (default: sharp)"),
]
Resume = Annotated[bool, typer.Option("--resume", help="continue the run in --out")]
Labels = Annotated[
    Path | None, typer.Option("--boxes", help="annotations that give the classes of photos in no class folder")
]
Boxes = Annotated[
    Path | None,
    typer.Option(
        help="ground-truth boxes: CSV (file, xmin, ymin, xmax, ymax), COCO, YOLO, Label Studio, CVAT, a folder of "
        "Pascal VOC XML files, or wsolevaluation"
    ),
]
Masks = Annotated[Path | None, typer.Option(help="folder of ground-truth masks with the names of the photos")]
Parts = Annotated[Path | None, typer.Option(help="folder of masks of the sufficient parts (see casmap scenes)")]
Split = Annotated[str | None, typer.Option(help="split to use if DATA has several, e.g. train or val")]


def with_recipe_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each field of a recipe to a command, which receives the given ones as the dict `changes`."""
    fields = {entry.name: entry for entry in dataclasses.fields(Recipe)}
    kinds = get_type_hints(Recipe)
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "changes"]
    options, panel = [], ""
    for name, entry in fields.items():
        panel = GROUPS.get(name, panel)
        options.append(_option(name, kinds[name], entry.metadata["help"], panel))
    options += [_option(name, type(understood), why) for name, (understood, why) in REMOVED.items()]
    options += [_option(old, kinds[new], f"the old name of {new}") for old, new in RENAMED.items()]

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        changes = {name: value for name in (*fields, *REMOVED, *RENAMED) if (value := arguments.pop(name)) is not None}
        command(**arguments, changes=changes)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + options
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _option(name: str, kind: Any, help: str, panel: str | None = None) -> inspect.Parameter:
    """An option of a recipe in a panel of the help; without a panel it is accepted, but not shown."""
    kind = Literal[tuple(CHOICES[name])] if name in CHOICES else kind
    option = typer.Option(help=help, rich_help_panel=panel, show_default=False, hidden=panel is None)
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
