"""Common types of all annotation formats: objects, the record of a photo, and problems."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.io.names import LONGEST, file_name, read_name
from casmap.io.reading import is_inside

Box = tuple[float, float, float, float]  # the edges x0, y0, x1, y1
Size = tuple[int, int]  # width, height
Mask = npt.NDArray[np.uint8]  # (H, W), 0 background, 255 object, 128 not counted


class Kind(StrEnum):
    """Kinds of problems and notes; each text is the heading of a list of files."""

    UNREADABLE = "photos that cannot be opened"
    MALFORMED = "annotations that cannot be read"
    NO_PHOTO = "annotations without a photo"
    EMPTY_SOURCE = "source(s) of annotations without a box or mask for any photo"
    OTHER_SIZE = "annotations made for another size of the photo"
    BOX_SKIPPED = "boxes left out"
    BOX_OUTSIDE = "boxes that extend outside their photo"
    MASK_EMPTY = "empty masks"
    MASK_SIZE = "masks that differ in size from their photo"
    MASK_SKIPPED = "masks that cannot be read"
    PART_SKIPPED = "sufficient parts left out"
    DUPLICATES_ACROSS_CLASSES = "photos that are the same file in different classes"
    # Notes, which are not problems:
    CLASS_TYPO = "boxes with a class that is no class folder"
    BOX_EDITED = "boxes that do not match their outlines"
    DUPLICATES = "photos that are the same file in one class"
    NO_ANNOTATION = "photos without an annotation"
    NO_CLASS = "photos left out: in no class folder, and no annotation gives a class"


NOTES = frozenset({Kind.CLASS_TYPO, Kind.BOX_EDITED, Kind.DUPLICATES, Kind.NO_ANNOTATION, Kind.NO_CLASS})


@dataclass(frozen=True)
class Problem:
    """A problem of one file: `what` is its name and, if needed, the reason."""

    kind: Kind
    what: str


class Skipped(Exception):  # noqa: N818 (named like the classes of casmap.errors)
    """A single annotation cannot be used and is left out; the others are used."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason

    def problem(self, name: str) -> Problem:
        """Return the problem of the photo or file of this name."""
        return Problem(self.kind, f"{name}: {self.reason}")


@dataclass(frozen=True, slots=True)
class AnnotatedObject:
    """One object marked in a photo, in the photo's pixels.

    name: its class as the source spells it, "" if the source gives none; area: used to find the largest object;
    difficult: ignored if the photo has other objects; outline: COCO's segmentation as in the file; edited: whether the
    source says that a person drew or changed it.
    """

    name: str
    box: Box
    area: float
    difficult: bool = False
    outline: Any = None
    edited: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class PhotoRecord:
    """The annotations of one photo.

    size: of the photo they were made for; scaled: whether they scale with the photo's size; mask: takes objects and the
    size of the photo and returns their mask, or None; it may raise Skipped.
    """

    objects: Sequence[AnnotatedObject] = ()
    size: Size | None = None
    scaled: bool = False
    mask: Callable[[Sequence[AnnotatedObject], Size], Mask | None] | None = None
    problems: Sequence[Problem] = ()


NO_RECORD = PhotoRecord()
ObjectParser = Callable[[], AnnotatedObject]  # may raise Skipped


@dataclass(frozen=True)
class Annotations:
    """A source of annotations; a photo's name is its path relative to the folder of photos.

    kind: a description; of: takes a photo's name and returns its record; labels: the classes of whole photos; listed:
    the names of the photos in the set, or None if the source does not list them.
    """

    kind: str = ""
    of: Callable[[str], PhotoRecord] = lambda name: NO_RECORD
    labels: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[str] | None = None
    problems: Sequence[Problem] = ()


class Names:
    """Find the photos of a folder by the names that annotations use.

    An annotation may use the path relative to the folder, with or without suffix. It may also use the file name alone,
    if it is unique and the photo or the annotation is in no subfolder: cat/1.xml never matches dog/1.jpg. Where two
    photos share a file name, the copies that casmap makes of them have the folder in front (`io.names.unique_names`).

    >>> names = Names(["cat/a.jpg", "cat/b.jpg", "dog/b.jpg"])
    >>> names.find("dog/b"), names.find("a.jpg"), names.find("b.jpg"), names.find("dog-b")
    ('dog/b.jpg', 'cat/a.jpg', None, 'dog/b.jpg')
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._all = frozenset(names)
        self._short: dict[str, str | None] = {}
        self._copies: dict[str, str | None] = {}
        for name in names:
            folder, _, last = name.rpartition("/")
            stem = posixpath.splitext(last)[0]
            # The copies of photos in YOLO's and VOC's folders have names that are text.
            copied = set() if stem.isprintable() and len(stem) < LONGEST // 4 else {file_name(stem)}
            for short in {posixpath.splitext(name)[0], last, stem} | copied:
                self._short[short] = None if short in self._short else name
            copy = file_name(f"{folder.rpartition('/')[2]}-{stem}")
            self._copies[copy] = None if copy in self._copies else name

    def __contains__(self, name: object) -> bool:
        return name in self._all

    def find(self, given: str) -> str | None:
        """Return the photo that a name in annotations refers to, or None."""
        meant = posixpath.normpath(read_name(given))
        if meant in self._all or given in self._all:
            return meant if meant in self._all else given
        if meant != given and (found := self._short.get(meant)) is not None:
            return found
        given = posixpath.normpath(given.replace("\\", "/"))
        if given in self._all:
            return given
        if (found := self._short.get(given)) is not None:
            return found
        flat = self._short.get(given.rpartition("/")[2])
        return flat if flat is not None and "/" not in flat else self._copies.get(given)

    def files(self, folder: Path, suffix: str) -> tuple[dict[str, Path], list[Problem]]:
        """Return the file of each photo in a folder of files named like photos, and a problem for each other file."""
        found: dict[str, Path] = {}
        problems = []
        for path in sorted(folder.rglob(f"*{suffix}")):
            relative = path.relative_to(folder)
            if any(part.startswith(".") for part in relative.parts) or not path.is_file():
                continue
            name = self.find(relative.with_suffix("").as_posix())
            if path.is_symlink() and not is_inside(path, folder):
                problems.append(Problem(Kind.MALFORMED, f"{relative.as_posix()}: a link that leads out of the folder"))
            elif name is None:
                problems.append(Problem(Kind.NO_PHOTO, relative.as_posix()))
            else:
                found.setdefault(name, path)
        return found, problems
