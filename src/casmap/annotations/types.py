"""The one shape in which every source of annotations is seen: what it says of a photo, and what is wrong with it."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]  # edges x0, y0, x1, y1
Size = tuple[int, int]  # width, height
Mask = npt.NDArray[np.uint8]  # (H, W), 0 background, 255 object, 128 not counted


class Kind(StrEnum):
    """What can be said of single files, as the head of a list of them."""

    UNREADABLE = "photos that cannot be opened"
    MALFORMED = "annotations that cannot be read"
    NO_PHOTO = "annotations without a photo"
    EMPTY_SOURCE = "sources of annotations, which tell of no photo where an object is"
    OTHER_SIZE = "annotations made for another size of their photo"
    BOX_SKIPPED = "boxes left out"
    BOX_OUTSIDE = "boxes that reach outside their photo"
    MASK_EMPTY = "empty masks"
    MASK_SIZE = "masks of another size than their photo"
    MASK_SKIPPED = "masks that cannot be read"
    PART_SKIPPED = "sufficient parts left out"
    DUPLICATES_ACROSS_CLASSES = "photos that are the same file in different classes"
    # No fault, but worth knowing:
    DUPLICATES = "photos that are the same file in one class"
    NO_ANNOTATION = "photos without an annotation"
    NO_CLASS = "photos left out, since no object tells their class"


NOTES = frozenset({Kind.DUPLICATES, Kind.NO_ANNOTATION, Kind.NO_CLASS})


@dataclass(frozen=True)
class Problem:
    """A problem of one file: `what` is its name and, where it is not obvious, the reason."""

    kind: Kind
    what: str


class Skipped(Exception):  # noqa: N818 (it is what it says)
    """A single annotation that cannot be used: all others go on without it."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind, self.why = kind, why

    def problem(self, name: str) -> Problem:
        """The problem it is for the photo or file of this name."""
        return Problem(self.kind, f"{name}: {self.why}")


@dataclass(frozen=True, slots=True)
class AnnotatedObject:
    """One object that somebody marked in a photo, in the photo's pixels.

    name: its class as the source spells it, "" where the source tells none; area: for finding the largest object;
    difficult: does not count where there are others; outline: COCO's segmentation as it stands in the file.
    """

    name: str
    box: Box
    area: float
    difficult: bool = False
    outline: Any = None


@dataclass(frozen=True, slots=True)
class PhotoRecord:
    """What a source says of one photo.

    size: of the photo it was made for; scaled: whether it holds for every size of the photo, in proportion;
    mask: draws the mask of chosen objects for a photo of a size, None where there is none; it may raise Skipped.
    """

    objects: Sequence[AnnotatedObject] = ()
    size: Size | None = None
    scaled: bool = False
    mask: Callable[[Sequence[AnnotatedObject], Size], Mask | None] | None = None
    problems: Sequence[Problem] = ()


NO_RECORD = PhotoRecord()
ObjectParser = Callable[[], AnnotatedObject]  # it may raise Skipped


@dataclass(frozen=True)
class Annotations:
    """A source of annotations; photos go by their names below the folder of photos.

    kind: what it is; of: what it says of a photo, looked up when asked; labels: classes that it gives to whole photos;
    listed: the photos that the set consists of, None where the source leaves that open.
    """

    kind: str = ""
    of: Callable[[str], PhotoRecord] = lambda name: NO_RECORD
    labels: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[str] | None = None
    problems: Sequence[Problem] = ()


class Names:
    """The photos of a folder, found by what annotations call them.

    That is the name below the folder, with or without its suffix; or the last part of it, where only one photo has it
    and where the photo or the annotation lies in no folder: cat/1.xml never speaks of dog/1.jpg.

    >>> names = Names(["cat/a.jpg", "cat/b.jpg", "dog/b.jpg"])
    >>> names.find("dog/b"), names.find("a.jpg"), names.find("b.jpg")
    ('dog/b.jpg', 'cat/a.jpg', None)
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._all = frozenset(names)
        self._short: dict[str, str | None] = {}
        for name in names:
            last = name.rpartition("/")[2]
            for short in {posixpath.splitext(name)[0], last, posixpath.splitext(last)[0]}:
                self._short[short] = None if short in self._short else name

    def find(self, said: str) -> str | None:
        """The photo that is meant, or None."""
        said = posixpath.normpath(said.replace("\\", "/"))
        if said in self._all:
            return said
        if (found := self._short.get(said)) is not None:
            return found
        flat = self._short.get(said.rpartition("/")[2])
        return flat if flat is not None and "/" not in flat else None

    def files(self, folder: Path, suffix: str) -> tuple[dict[str, Path], list[Problem]]:
        """The file of each photo, in a folder of files that are named as the photos; a problem for each of no photo."""
        found: dict[str, Path] = {}
        problems = []
        for path in sorted(folder.rglob(f"*{suffix}")):
            said = path.relative_to(folder)
            if any(part.startswith(".") for part in said.parts):
                continue
            name = self.find(said.with_suffix("").as_posix())
            if name is None:
                problems.append(Problem(Kind.NO_PHOTO, said.as_posix()))
            else:
                found.setdefault(name, path)
        return found, problems
