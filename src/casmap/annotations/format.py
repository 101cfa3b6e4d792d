"""What a format of annotations is, and the registry of all of them: a new one is one file in `formats`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from casmap.registry import Registry

if TYPE_CHECKING:  # names of formats are listed without loading numpy
    from casmap.annotations.labelled import Labelled
    from casmap.annotations.types import Annotations, Names


Classes = Literal["folder", "predicted", "none"]  # where objects have their class from
Which = Literal["largest", "all"]  # of a photo's objects


@dataclass(frozen=True)
class WriteOptions:
    """What some formats let one choose.

    rle: COCO's pixels exactly, holes too, instead of polygons, which tools let people edit.
    prefix: what stands before a photo's name in its address in Label Studio; the default names files on its machine.
    """

    rle: bool = False
    prefix: str = "/data/local-files/?d="


@dataclass(frozen=True)
class Format:
    """A format of annotations.

    recognises: whether a file or folder looks like it.
    read: path, the folder of the photos, and their names -> what it says of them.
    write: photos, all classes, a folder, options -> the file or folder to open; `read` takes it, too.
    """

    recognises: Callable[[Path], bool]
    read: Callable[[Path, Path, "Names"], "Annotations"]
    write: Callable[[Sequence["Labelled"], Sequence[str], Path, WriteOptions], Path]


FORMATS: Registry[Format] = Registry(
    "annotation format", plugins="casmap.formats", package="casmap.annotations.formats", of=Format
)
