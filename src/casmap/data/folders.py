"""Open a folder of photos with the classes, boxes and masks that belong to it."""

import os
from difflib import get_close_matches
from itertools import count, takewhile
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from casmap.annotations.formats.masks import read_masks
from casmap.annotations.regions import box_was_edited, check_size, main_class, of_class, open_mask
from casmap.annotations.types import AnnotatedObject, Annotations, Kind, Names, PhotoRecord, Problem, Size, Skipped
from casmap.data.layouts import SPLIT_NAMES, find_layout
from casmap.data.photos import Annotation, PhotoSet
from casmap.errors import UserError, option
from casmap.io.decoding import IMAGE_SUFFIXES, image_size
from casmap.io.find import UNSUPPORTED_SUFFIXES, links_outside, without_heic_copies
from casmap.io.images import open_photo
from casmap.io.outputs import is_output, map_files
from casmap.reporting import counted

Boxes = npt.NDArray[np.float64]
OptionalPath = str | os.PathLike[str] | None
CLOSE = 0.8  # similarity of a name to a class from which on it may be a typing error
ROUNDING = 1.0  # pixels by which a box may extend outside its photo without being reported


class PhotoFolder(PhotoSet):
    """The photos of a folder: root/class/photo.jpg, or the layout of ILSVRC, Pascal VOC, COCO or Tiny ImageNet.

    Each folder in root that has photos, at any depth, is a class. A photo directly in root has the class of its largest
    object in the annotations; without one it is left out. Maps and runs that casmap wrote are not photos.

    boxes: a CSV file with the columns file, xmin, ymin, xmax, ymax (in the photo's pixels), or a file or folder in any
    other annotation format.
    masks: a folder with a PNG for each photo, named like the photo: 0 background, 255 object, 128 not counted.
    parts: a folder with a PNG for each sufficient part, named like the photo with .0.png, .1.png, ...: 255 inside.
    split: the split to open, if root has several.

    An annotation that cannot be used is left out; `problems` and `read_annotation` name it.
    """

    def __init__(
        self, root: str | Path, boxes: OptionalPath = None, masks: OptionalPath = None, parts: OptionalPath = None,
        split: str | None = None,
    ) -> None:  # fmt: skip
        layout = find_layout(Path(root), None if boxes is None else Path(boxes), split)
        self.root = layout.photos
        if not self.root.resolve().is_relative_to(Path(root).resolve()):
            raise UserError(f"{self.root} is a link that leads out of {root}: give the folder it leads to.")
        if (self.root / "photos").is_dir() and (self.root / "boxes.csv").is_file():
            raise UserError(f"The class folders are one level deeper: give {self.root / 'photos'}.")
        for folder in (masks, parts):
            if folder is not None and not Path(folder).is_dir():
                raise UserError(f"There is no folder {folder}.")
        mask_files = Annotations() if masks is None else read_masks(Path(masks))
        self._parts = None if parts is None else Path(parts)
        names, unsupported, outside = _photos_in(self.root)
        self._annotations, self._masks = layout.annotations(Names(names)), mask_files
        self.problems = list(self._annotations.problems)
        self.problems += [Problem(Kind.UNREADABLE, f"{name}: unsupported file format") for name in unsupported]
        self.problems += [Problem(Kind.UNREADABLE, f"{name}: a link that leads out of the folder") for name in outside]
        names = names if self._annotations.listed is None else list(self._annotations.listed)
        folders = {name.partition("/")[0] for name in names if "/" in name}
        self._only_splits = boxes is not None and len(folders) > 1 and folders <= SPLIT_NAMES  # as in images/ of YOLO
        if layout.only is not None:
            stems = {Path(name).stem for name in names}
            self.problems += [Problem(Kind.NO_PHOTO, stem) for stem in sorted(layout.only - stems)]
            names = [name for name in names if Path(name).stem in layout.only]
        labels = {name: label for name in names if (label := self._class_of(name)) is not None}
        loose = [name for name in names if name not in labels]
        for name in loose:  # they are not in the set, so their problems are reported here
            self.problems += [Problem(Kind.NO_CLASS, name), *self._annotations.of(name).problems]
        if not labels:
            raise UserError(_no_classes(self.root, loose, unsupported, outside))
        # So that class 10 comes after class 9; Python does not convert texts of thousands of digits.
        by_number = all(label.isdecimal() and len(label) < 20 for label in labels.values())
        self.classes = sorted(set(labels.values()), key=(lambda name: (int(name), name)) if by_number else None)
        self.names = list(labels)
        self._similar: dict[str, str] = {}
        self._numbers = {name: number for number, name in enumerate(self.classes)}
        self.labels = np.array([self._numbers[label] for label in labels.values()], dtype=np.int64)
        in_folders = all(name.startswith(f"{label}/") for name, label in labels.items())
        photos = layout.kind + (" in class folders" if in_folders else ", classes from the annotations")
        found = [photos, self._annotations.kind, mask_files.kind, "sufficient parts from a folder" if parts else ""]
        self.understood = "; ".join(filter(None, found))
        # The sources that should locate objects; one that gives whole photos their class need not.
        self.sources = list(filter(None, ["" if self._annotations.labels else self._annotations.kind, mask_files.kind]))

    def path(self, index: int) -> Path:
        """Return the file of photo number `index`."""
        return self.root / self.names[index]

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Return photo number `index`: (H, W, 3) RGB."""
        return open_photo(self.path(index), least=least).image

    def annotation(self, index: int) -> Annotation | None:
        """Return boxes and mask of photo number `index`, or None; without boxes, the tightest box of the mask."""
        return self.read_annotation(index)[0]

    def read_annotation(self, index: int) -> tuple[Annotation | None, list[Problem]]:
        """Return the annotation of photo number `index`, or None, and the problems of its annotations."""
        name = self.names[index]
        known = self._annotations.of(name)
        objects = of_class(known.objects, self.classes[self.labels[index]], self._numbers)
        problems = list(known.problems)
        named = [near for one in known.objects if (near := self._similar_class(one.name))]
        problems += [Problem(Kind.CLASS_TYPO, f"{name}: {near}") for near in named]
        draw = self._masks.of(name).mask or known.mask
        if not objects and draw is None:
            return None, problems
        size = image_size(self.path(index))
        boxes = _boxes(name, objects, known, size, problems)
        edited = [] if size is None or draw is not known.mask else [o for o in objects if box_was_edited(o, size)]
        problems += [Problem(Kind.BOX_EDITED, name)] * len(edited)
        mask = parts = None
        try:
            drawn = None if draw is None or size is None else draw(objects, size)
            if drawn is not None and size is not None:
                check_size((drawn.shape[1], drawn.shape[0]), size)
                if not (drawn == 255).any():
                    raise Skipped(Kind.MASK_EMPTY, "no pixel of the mask is 255")
            mask = drawn
            parts = self._sufficient_parts(name, size)
        except Skipped as skipped:
            problems.append(skipped.problem(name))
        if not len(boxes) and mask is not None:
            ys, xs = np.nonzero(mask == 255)
            boxes = np.array([[xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]], dtype=np.float64)
        return (Annotation(boxes, mask, parts, len(edited)) if len(boxes) else None), problems

    def _similar_class(self, label: str) -> str:
        """Return a name that is no class of the set, with the class that it resembles; "" if it resembles none."""
        if not label or label in self._numbers or any(letter.isdigit() for letter in label):  # numbers differ little
            return ""
        if label not in self._similar:
            near = get_close_matches(label, self.classes, n=1, cutoff=CLOSE)
            self._similar[label] = f"{label} (did you mean {near[0]}?)" if near else ""
        return self._similar[label]

    def mask_files(self) -> int:
        """Return the number of photos that have a file in the folder of masks."""
        return sum(self._masks.of(name).mask is not None for name in self.names)

    def _class_of(self, name: str) -> str | None:
        """Return the class that the annotations give to the photo, else its folder, else its largest object."""
        if name in self._annotations.labels:
            return self._annotations.labels[name]
        if "/" in name and not self._only_splits:
            return name.partition("/")[0]
        return main_class(self._annotations.of(name).objects)

    def _sufficient_parts(self, name: str, size: Size | None) -> npt.NDArray[np.bool_] | None:
        if self._parts is None:
            return None
        stem = self._parts / name
        paths = takewhile(Path.exists, (stem.with_suffix(f".{number}.png") for number in count()))
        parts = [open_mask(path, self._parts) > 127 for path in paths]
        if len({part.shape for part in parts} | ({size[::-1]} if size and parts else set())) > 1:
            raise Skipped(Kind.PART_SKIPPED, "the parts and the photo differ in size")
        return np.stack(parts) if parts else None


def _boxes(
    name: str, objects: list[AnnotatedObject], known: PhotoRecord, size: Size | None, problems: list[Problem]
) -> Boxes:
    """Return the objects' boxes (n, 4) without those entirely outside the photo; boxes are never clipped."""
    boxes = np.array([one.box for one in objects], dtype=np.float64).reshape(-1, 4)
    if size is None:
        return boxes  # the photo cannot be opened, which is reported when it is opened
    if known.size is not None and known.size != size:
        if known.scaled:
            boxes = boxes * np.tile(np.divide(size, known.size), 2)
        else:
            sizes = f"{name}: made for {known.size[0]} x {known.size[1]}, the photo is {size[0]} x {size[1]}"
            problems.append(Problem(Kind.OTHER_SIZE, sizes))
    overlaps = np.all(boxes[:, :2] < size, axis=1) & np.all(boxes[:, 2:] > 0, axis=1)
    exceeds = (boxes[:, :2] < -ROUNDING).any(axis=1) | (boxes[:, 2:] > np.add(size, ROUNDING)).any(axis=1)
    for box, kept in zip(boxes[~overlaps | exceeds], overlaps[~overlaps | exceeds], strict=True):
        text = f"{name}: {', '.join(f'{edge:g}' for edge in box)} in a photo of {size[0]} x {size[1]}"
        problems.append(Problem(Kind.BOX_OUTSIDE if kept else Kind.BOX_SKIPPED, text))
    return np.asarray(boxes[overlaps])


def _photos_in(root: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the photos in `root` and below it, of unsupported files, and of links out of `root`."""
    try:
        folders = [entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError as error:
        _refuse(error)
    outside = {name for name in folders if links_outside(root / name, root)}
    names = [f"{folder}/{name}" for folder in folders if folder not in outside for name in _photos_below(root / folder)]
    names += _photos_below(root, recursive=False)
    outside |= {name for name in names if links_outside(root / name, root)}
    names = [name for name in names if name not in outside]
    photos = [name for name in names if _suffix(name) in IMAGE_SUFFIXES]
    unsupported = [name for name in names if _suffix(name) not in IMAGE_SUFFIXES]
    return sorted(photos, key=lambda name: name.split("/")), sorted(unsupported), sorted(outside)


def _no_classes(root: Path, loose: list[str], unsupported: list[str], outside: list[str]) -> str:
    """Return what to do with a folder that has no class folders."""
    advice = f"put the photos of each class in a folder of their own, such as {root / 'cat'} and {root / 'dog'}"
    details = f" Files of an unsupported format: {len(unsupported)}, the first {unsupported[0]}." if unsupported else ""
    details += f" Links that lead out of it are not followed: {outside[0]}." if outside else ""
    if not loose:
        return f"There are no photos in {root}: {advice}.{details}"
    return (
        f"{root} has no class folders, only {counted(len(loose), 'photo')}, the first {loose[0]}: {advice}, or give "
        f"annotations that name the class of each photo ({option('labels')} in train, {option('boxes')} in other "
        f"commands). Without classes, use the shipped mapping: casmap extract {root}.{details}"
    )


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _photos_below(folder: Path, recursive: bool = True) -> list[str]:
    """Return the photos in a folder, without hidden files and without what casmap itself wrote."""
    found = []
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        if recursive and is_output(Path(parent)):
            folders.clear()
            continue
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        maps = {path.name for path in map_files(Path(parent))}
        inside = "" if parent == str(folder) else f"{Path(parent).relative_to(folder).as_posix()}/"
        suffixes = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES
        photos = [name for name in files if _suffix(name) in suffixes and name[0] != "." and name not in maps]
        found += [f"{inside}{name}" for name in without_heic_copies(photos)]
    try:
        return [name for name in found if (folder / name).is_file()]
    except PermissionError as error:  # the folder may be listed, but not entered
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    """A class must not be missing in silence because its folder is closed."""
    raise UserError(f"Cannot read {os.fsdecode(error.filename)}: {error.strerror}. Make it readable, or move it away.")
