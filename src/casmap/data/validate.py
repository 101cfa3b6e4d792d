"""Check a set of photos: open every photo and its annotations, and report what is wrong."""

import dataclasses
import hashlib
import json
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from casmap.annotations.types import NOTES, Kind, Problem, Size
from casmap.data.folders import PhotoFolder
from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.names import written
from casmap.reporting import SILENT, Reporter

THREADS = min(8, os.cpu_count() or 1)
LEFT_OUT = frozenset({
    Kind.MALFORMED, Kind.BOX_SKIPPED, Kind.MASK_EMPTY, Kind.MASK_SIZE, Kind.MASK_SKIPPED,
})  # fmt: skip
AT_ONCE = 1024  # photos submitted to the threads at a time


@dataclass(frozen=True)
class Report:
    """What `check` found: counts, sizes, and the files of each kind of problem or note."""

    understood: str  # the layout and the annotations that were recognised
    photos: int
    classes: dict[str, int]  # photos in each
    sizes: dict[str, Size]  # smallest, median and largest photo, by area
    with_boxes: int
    box_share: float | None  # mean share of a photo that its boxes cover, over the photos with boxes
    with_masks: int
    with_parts: int
    problems: dict[str, list[str]]
    notes: dict[str, list[str]]

    @property
    def fine(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


@dataclass(frozen=True)
class _PhotoCheck:
    """The result for one photo, without the photo itself."""

    size: Size | None = None
    digest: bytes | None = None
    box_share: float | None = None
    mask: bool = False
    parts: bool = False
    problems: list[Problem] = dataclasses.field(default_factory=list)


def check(photos: PhotoSet, *, reporter: Reporter = SILENT) -> Report:
    """Open every photo and its annotations, and count what is there and what is wrong.

    >>> from casmap.data.scenes import Scenes
    >>> report = check(Scenes(classes=2, photos=3, size=32))
    >>> report.fine, report.classes, report.with_boxes
    (True, {'class-00': 2, 'class-01': 1}, 3)
    """
    checks: list[_PhotoCheck] = []
    with ThreadPoolExecutor(THREADS) as pool, reporter.progress("Checking photos", len(photos)) as advance:
        for at in range(0, len(photos), AT_ONCE):
            for one in pool.map(partial(_check_photo, photos), range(at, min(at + AT_ONCE, len(photos)))):
                checks.append(one)
                advance()
    problems = list(photos.problems) if isinstance(photos, PhotoFolder) else []
    problems += [problem for one in checks for problem in one.problems]
    shares = [one.box_share for one in checks if one.box_share is not None]
    if shares or any(one.mask for one in checks):
        without = [name for name, one in zip(photos.names, checks, strict=True) if one.size and one.box_share is None]
        problems += [Problem(Kind.NO_ANNOTATION, name) for name in without]
    elif isinstance(photos, PhotoFolder):
        bad = any(problem.kind in LEFT_OUT for problem in problems)
        why = "every box or mask was left out, see below" if bad else "do its file names match those of the photos?"
        problems += [Problem(Kind.EMPTY_SOURCE, f"{source}: {why}") for source in photos.sources]
    problems += _duplicates(photos, [one.digest for one in checks])
    counts = np.bincount(photos.labels, minlength=len(photos.classes))
    sizes = sorted((one.size for one in checks if one.size is not None), key=lambda size: (size[0] * size[1], size))
    places = {"smallest": 0, "median": len(sizes) // 2, "largest": -1}
    found = {kind: names for kind in Kind if (names := [one.what for one in problems if one.kind == kind])}
    return Report(
        understood=getattr(photos, "understood", "scenes with boxes, masks and sufficient parts"),
        photos=len(photos), classes=dict(zip(photos.classes, counts.tolist(), strict=True)),
        sizes={name: sizes[place] for name, place in places.items()} if sizes else {},
        with_boxes=len(shares), box_share=statistics.fmean(shares) if shares else None,
        with_masks=sum(one.mask for one in checks), with_parts=sum(one.parts for one in checks),
        problems={str(kind): names for kind, names in found.items() if kind not in NOTES},
        notes={str(kind): names for kind, names in found.items() if kind in NOTES},
    )  # fmt: skip


def annotation_warnings(photos: PhotoSet) -> list[str]:
    """A sentence for each kind of annotations of a folder's photos that are left out or have an unlikely class."""
    if not isinstance(photos, PhotoFolder):
        return []
    found: dict[Kind, list[str]] = defaultdict(list)
    for index in range(len(photos)):
        for problem in photos.read_annotation(index)[1]:
            found[problem.kind].append(problem.what)
    warnings = [
        f"{str(kind).capitalize()}: {len(names)}, the first {names[0]}."
        for kind in Kind
        if kind in LEFT_OUT and (names := found[kind])
    ]
    if typos := found[Kind.CLASS_TYPO]:
        classes = dict.fromkeys(what.partition(": ")[2] for what in typos)
        text = "box has" if len(typos) == 1 else "boxes have"
        warnings.append(f"{len(typos)} {text} a class that is no class folder: {', '.join(classes)}.")
    return warnings


def _check_photo(photos: PhotoSet, index: int) -> _PhotoCheck:
    try:
        image = photos.image(index)
    except UserError as error:
        return _PhotoCheck(problems=[Problem(Kind.UNREADABLE, str(error))])
    if isinstance(photos, PhotoFolder):
        annotation, problems = photos.read_annotation(index)
        with open(photos.path(index), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    else:
        annotation, problems = photos.annotation(index), []
        digest = hashlib.sha256(image.tobytes()).digest()
    size = image.shape[1], image.shape[0]
    if annotation is None:
        return _PhotoCheck(size, digest, problems=problems)
    inside = np.zeros((size[1], size[0]), dtype=bool)  # pixels inside at least one box, rounded to whole pixels
    for x0, y0, x1, y1 in np.clip(np.rint(annotation.boxes), 0, np.tile(size, 2)).astype(int):
        inside[y0:y1, x0:x1] = True
    share = float(inside.mean())
    return _PhotoCheck(size, digest, share, annotation.mask is not None, annotation.parts is not None, problems)


def _duplicates(photos: PhotoSet, digests: list[bytes | None]) -> Iterator[Problem]:
    """Report photos that are in the set more than once: a problem if their classes differ, otherwise a note."""
    same: dict[bytes, list[int]] = defaultdict(list)
    for index, digest in enumerate(digests):
        if digest is not None:
            same[digest].append(index)
    for indices in same.values():
        if len(indices) > 1:
            several_classes = len({int(photos.labels[index]) for index in indices}) > 1
            yield Problem(
                Kind.DUPLICATES_ACROSS_CLASSES if several_classes else Kind.DUPLICATES,
                " = ".join(photos.names[i] for i in indices),
            )


def to_json(report: Report) -> str:
    """Return the whole report as JSON, with all file names."""
    content = _texts(dataclasses.asdict(report)) | {"fine": report.fine}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _texts(tree: Any) -> Any:
    """Return a tree with all file names as text."""
    if isinstance(tree, dict):
        return {_texts(key): _texts(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_texts(value) for value in tree]
    return written(tree) if isinstance(tree, str) else tree
