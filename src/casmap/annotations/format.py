"""The interface of an annotation format, and the registry of formats; to add one, add a module to `formats`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from casmap.registry import Registry

if TYPE_CHECKING:  # the command line lists the formats without importing numpy
    from casmap.annotations.labelled import Labelled
    from casmap.annotations.types import Annotations, Names


Classes = Literal["folder", "predicted", "none"]  # the source of the objects' classes
Which = Literal["largest", "all"]  # which of a photo's objects to return


@dataclass(frozen=True)
class WriteOptions:
    """Options of single formats.

    rle: in COCO, exact pixels with holes as run lengths, instead of polygons, which tools can edit.
    prefix: in Label Studio, the text before a photo's name in its address; None: for files that its server reads.
    folder: the name of the folder of photos, which Label Studio's addresses start with.
    val: in YOLO, the share of the photos in the validation split; 0 writes no split, but Ultralytics needs one.

    >>> WriteOptions(rle=True)
    WriteOptions(rle=True, prefix=None, val=0.1, folder='')
    """

    rle: bool = False
    prefix: str | None = None
    val: float = 0.1
    folder: str = ""


@dataclass(frozen=True)
class Format:
    """An annotation format.

    recognises: takes a file or folder; returns whether it has this format.
    read: takes the file or folder, the folder of the photos, and their names; returns the annotations.
    write: takes photos, all classes, a folder, which may exist, and options; returns the file or folder to open, which
    `read` accepts.
    options: the names of the fields of `WriteOptions` that `write` uses and that other formats do not have.
    """

    recognises: Callable[[Path], bool]
    read: Callable[[Path, Path, "Names"], "Annotations"]
    write: Callable[[Sequence["Labelled"], Sequence[str], Path, WriteOptions], Path]
    options: tuple[str, ...] = ()


FORMATS: Registry[Format] = Registry(
    "annotation format", plugins="casmap.formats", package="casmap.annotations.formats", of=Format
)
