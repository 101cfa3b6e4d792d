"""Photos in folders as people have them, with the classes, boxes and masks that come with them."""

import os
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from casmap.annotations.formats.masks import read_masks
from casmap.annotations.regions import check_size, main_class, of_class, open_mask
from casmap.annotations.types import AnnotatedObject, Annotations, Kind, Names, PhotoRecord, Problem, Size, Skipped
from casmap.data.layouts import find_layout
from casmap.data.photos import Annotation, PhotoSet
from casmap.errors import UserError
from casmap.io.find import FOREIGN_SUFFIXES, leads_out
from casmap.io.images import IMAGE_SUFFIXES, image_size, open_photo

Boxes = npt.NDArray[np.float64]
Where = str | Path | None
ROUNDING = 1.0  # pixels by which a box may reach outside its photo before that is worth a word


class PhotoFolder(PhotoSet):
    """root/class/photo.jpg: each folder with photos, at any depth below it, is a class; or ILSVRC, Pascal VOC, COCO.

    Photos in no folder have the class of their largest object in the annotations.

    boxes: a CSV file with the columns file, xmin, ymin, xmax, ymax (the photo's pixels), `file` relative to it; or a
    file or folder in any other of the annotation formats.
    masks: a folder with a picture for each photo, root's names with .png: 0 background, 255 object, 128 not counted.
    parts: a folder with a picture for each sufficient part, root's names with .0.png, .1.png, ...: 255 where it is.
    split: which one, where the root has several.

    A single annotation that cannot be used is left out; `problems` and `look` name it.
    """

    def __init__(
        self, root: str | Path, boxes: Where = None, masks: Where = None, parts: Where = None, split: str | None = None
    ) -> None:
        layout = find_layout(Path(root), None if boxes is None else Path(boxes), split)
        self.root = layout.photos
        if not self.root.resolve().is_relative_to(Path(root).resolve()):
            raise UserError(f"{self.root} is a link that leads out of {root}: give the folder that it leads to.")
        if (self.root / "photos").is_dir() and (self.root / "boxes.csv").is_file():
            raise UserError(f"The classes are one folder further down: give {self.root / 'photos'}.")
        for folder in (masks, parts):
            if folder is not None and not Path(folder).is_dir():
                raise UserError(f"There is no folder {folder}.")
        drawn = Annotations() if masks is None else read_masks(Path(masks))
        self._parts = None if parts is None else Path(parts)
        there, foreign, away = _photos_in(self.root)
        self._annotations, self._masks = layout.annotations(Names(there)), drawn
        self.problems = list(self._annotations.problems)
        self.problems += [Problem(Kind.UNREADABLE, f"{name}: no kind of file that casmap opens") for name in foreign]
        self.problems += [Problem(Kind.UNREADABLE, f"{name}: a link that leads out of the folder") for name in away]
        there = there if self._annotations.listed is None else list(self._annotations.listed)
        if layout.only is not None:
            stems = {Path(name).stem for name in there}
            self.problems += [Problem(Kind.NO_PHOTO, stem) for stem in sorted(layout.only - stems)]
            there = [name for name in there if Path(name).stem in layout.only]
        labels = {name: label for name in there if (label := self._class_of(name)) is not None}
        for name in there:
            if name not in labels:  # nobody will look at it any more, so its problems are told here
                self.problems += [Problem(Kind.NO_CLASS, name), *self._annotations.of(name).problems]
        if not labels:
            closed = f" {len(foreign)} files are of kinds that casmap does not open: {foreign[0]}." if foreign else ""
            closed += f" {len(away)} links lead out of it, and are not followed: {away[0]}." if away else ""
            raise UserError(
                f"There are no photos in class folders below {root}: give each class a folder with its photos, or give "
                f"annotations that name the classes.{closed}"
            )
        by_number = all(map(str.isdecimal, labels.values()))  # so that class 10 comes after class 9
        self.classes = sorted(set(labels.values()), key=(lambda name: (int(name), name)) if by_number else None)
        self.names = list(labels)
        self._numbers = {name: number for number, name in enumerate(self.classes)}
        self.labels = np.array([self._numbers[label] for label in labels.values()], dtype=np.int64)
        in_folders = all(name.startswith(f"{label}/") for name, label in labels.items())
        photos = layout.kind + (" in class folders" if in_folders else ", classes from the annotations")
        told = [photos, self._annotations.kind, drawn.kind, "sufficient parts from a folder" if parts else ""]
        self.understood = "; ".join(filter(None, told))
        # What should tell where objects are; a source that gives whole photos their class need not.
        self.sources = list(filter(None, ["" if self._annotations.labels else self._annotations.kind, drawn.kind]))

    def path(self, index: int) -> Path:
        """The file of photo number `index`."""
        return self.root / self.names[index]

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index`: (H, W, 3) RGB."""
        return open_photo(self.path(index), least=least).image

    def annotation(self, index: int) -> Annotation | None:
        """Boxes and mask of photo number `index`, else the tightest box of the mask; None where nothing is known."""
        return self.read_annotation(index)[0]

    def read_annotation(self, index: int) -> tuple[Annotation | None, list[Problem]]:
        """What is known of photo number `index`, and what is wrong with its annotations."""
        name = self.names[index]
        known = self._annotations.of(name)
        objects = of_class(known.objects, self.classes[self.labels[index]], self._numbers)
        problems = list(known.problems)
        draw = self._masks.of(name).mask or known.mask
        if not objects and draw is None:
            return None, problems
        size = image_size(self.path(index))
        boxes = _boxes(name, objects, known, size, problems)
        mask = parts = None
        try:
            drawn = None if draw is None or size is None else draw(objects, size)
            if drawn is not None and size is not None:
                check_size((drawn.shape[1], drawn.shape[0]), size)
                if not (drawn == 255).any():
                    raise Skipped(Kind.MASK_EMPTY, "no pixel of the mask is 255")
            mask = drawn
            parts = self._sufficient_parts(name, size)
        except Skipped as bad:
            problems.append(bad.problem(name))
        if not len(boxes) and mask is not None:
            ys, xs = np.nonzero(mask == 255)
            boxes = np.array([[xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]], dtype=np.float64)
        return (Annotation(boxes, mask, parts) if len(boxes) else None), problems

    def _class_of(self, name: str) -> str | None:
        """The class that the annotations give to the photo, else its folder, else its largest object."""
        if name in self._annotations.labels:
            return self._annotations.labels[name]
        return name.partition("/")[0] if "/" in name else main_class(self._annotations.of(name).objects)

    def _sufficient_parts(self, name: str, size: Size | None) -> npt.NDArray[np.bool_] | None:
        if self._parts is None:
            return None
        stem = self._parts / name
        paths = takewhile(Path.exists, (stem.with_suffix(f".{number}.png") for number in count()))
        pictures = [open_mask(path) > 127 for path in paths]
        if len({picture.shape for picture in pictures} | ({size[::-1]} if size and pictures else set())) > 1:
            raise Skipped(Kind.PART_SKIPPED, "the parts are of another size than the photo")
        return np.stack(pictures) if pictures else None


def _boxes(
    name: str, objects: list[AnnotatedObject], known: PhotoRecord, size: Size | None, problems: list[Problem]
) -> Boxes:
    """The objects' boxes, (n, 4), without those that lie wholly outside the photo; others are never clipped."""
    boxes = np.array([one.box for one in objects], dtype=np.float64).reshape(-1, 4)
    if size is None:
        return boxes  # of a photo that cannot be opened, which is said by whoever opens it
    if known.size is not None and known.size != size:
        if known.scaled:
            boxes = boxes * np.tile(np.divide(size, known.size), 2)
        else:
            said = f"{name}: made for {known.size[0]} x {known.size[1]}, the photo is {size[0]} x {size[1]}"
            problems.append(Problem(Kind.OTHER_SIZE, said))
    touches = np.all(boxes[:, :2] < size, axis=1) & np.all(boxes[:, 2:] > 0, axis=1)
    reaches = (boxes[:, :2] < -ROUNDING).any(axis=1) | (boxes[:, 2:] > np.add(size, ROUNDING)).any(axis=1)
    for box, inside in zip(boxes[~touches | reaches], touches[~touches | reaches], strict=True):
        said = f"{name}: {', '.join(f'{edge:g}' for edge in box)} in a photo of {size[0]} x {size[1]}"
        problems.append(Problem(Kind.BOX_OUTSIDE if inside else Kind.BOX_SKIPPED, said))
    return np.asarray(boxes[touches])


def _photos_in(root: Path) -> tuple[list[str], list[str], list[str]]:
    """Names of the photos in folders below `root`, or of those in `root` itself; of files that are not opened.

    And of links that lead out of `root`, where nothing is read.
    """
    folders = [entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")]
    away = {name for name in folders if leads_out(root / name, root)}
    below = [f"{folder}/{name}" for folder in folders if folder not in away for name in _photos_below(root / folder)]
    flat = _photos_below(root, deep=False)
    away |= {name for name in (*below, *flat) if leads_out(root / name, root)}
    below, flat = ([name for name in names if name not in away] for names in (below, flat))
    photos = [name for name in below if _suffix(name) in IMAGE_SUFFIXES]
    photos = photos or [name for name in flat if _suffix(name) in IMAGE_SUFFIXES]
    foreign = [name for name in (*below, *flat) if _suffix(name) not in IMAGE_SUFFIXES]
    return sorted(photos, key=lambda name: name.split("/")), sorted(foreign), sorted(away)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _photos_below(folder: Path, deep: bool = True) -> list[str]:
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if deep and not name.startswith(".")]
        inside = "" if where == str(folder) else f"{Path(where).relative_to(folder).as_posix()}/"
        seen = [name for name in files if _suffix(name) in IMAGE_SUFFIXES | FOREIGN_SUFFIXES and name[0] != "."]
        found += [f"{inside}{name}" for name in seen]
    return [name for name in found if (folder / name).is_file()]
