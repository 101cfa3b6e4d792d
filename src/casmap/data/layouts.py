"""Recognise the layout of a folder of photos, and the format of a file of annotations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from casmap.annotations import tiny_imagenet
from casmap.annotations.format import FORMATS
from casmap.annotations.formats import coco, csv, voc
from casmap.annotations.types import Annotations, Names
from casmap.errors import UserError, option
from casmap.io.reading import MAX_ANNOTATIONS, is_inside, read_text, reading, refuse_link

SPLIT_NAMES = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


def no_annotations(names: Names) -> Annotations:
    """Return no annotations: those of a layout that has none of its own."""
    return Annotations()


@dataclass(frozen=True)
class Layout:
    """Where the photos are, and how to read their annotations.

    kind: a description; photos: the folder of the photos; only: the stems of the photos in the split, None for all.
    """

    kind: str
    photos: Path
    annotations: Callable[[Names], Annotations] = no_annotations
    only: frozenset[str] | None = None


def find_layout(root: Path, boxes: Path | None = None, split: str | None = None) -> Layout:
    """Recognise one of LAYOUTS by its files and folders; photos without own annotations have them in `boxes`."""
    if root.is_file():
        raise UserError(f"{root} is a file: give the folder that contains the class folders.")
    if not root.is_dir():
        raise UserError(f"There is no folder {root}.")
    layout = _layout(root, split)
    if boxes is None:
        return layout
    if layout.annotations is not no_annotations:
        raise UserError(f"{root} is {layout.kind}, with its own annotations: leave out {option('boxes')}.")
    return replace(layout, annotations=partial(read_annotations, boxes, layout.photos))


def _layout(root: Path, split: str | None) -> Layout:
    """Return the layout of a split of a folder."""
    for recognise in LAYOUTS.values():
        if (layouts := recognise(root)) is not None:
            return layouts[_choose(root, list(layouts), split)]()
    if (splits := _split_folders(root)) or split is not None:
        root /= _choose(root, splits, split)
    return Layout("photos", root)


def splits_of(root: Path) -> list[str]:
    """Return the names of a folder's splits; an empty list if it does not exist or has none.

    >>> splits_of(Path("missing"))
    []
    """
    if not root.is_dir():
        return []
    for recognise in LAYOUTS.values():
        if (layouts := recognise(root)) is not None:
            return [name for name in layouts if name]
    return _split_folders(root)


def read_annotations(path: Path, root: Path, names: Names) -> Annotations:
    """Read a file or folder of annotations in the format that recognises it."""
    if not path.exists():
        raise UserError(f"There is no file {path}.")
    # In reverse, so that plugins come before casmap's own formats, and if several are in one folder, the text files of
    # wsolevaluation come before XML files, and these before masks.
    for form in reversed(FORMATS.values()):
        if form.recognises(path):
            return form.read(path, root, names)
    if path.is_dir():
        expected = "no XML files, no localization.txt, no YOLO labels and no masks"
        raise UserError(f"There are no annotations in {path}: {expected}.")
    return FORMATS["csv"].read(path, root, names)  # its error names the columns that are expected


Splits = dict[str, Callable[[], Layout]]


def _ilsvrc(root: Path) -> Splits | None:
    """Recognise Data/CLS-LOC and Annotations/CLS-LOC."""
    for base in (root, root / "ILSVRC"):
        data, annotations = base / "Data" / "CLS-LOC", base / "Annotations" / "CLS-LOC"
        if data.is_dir() and annotations.is_dir():
            break
    else:
        return None
    tables = [folder / "LOC_val_solution.csv" for folder in (base, base.parent)]
    table = next((path for path in tables if path.is_file() and is_inside(path, path.parent)), None)

    def read(split: str, names: Names) -> Annotations:
        refuse_link(annotations / split, root)
        labels = _solutions(table, names) if table is not None and split == "val" else {}
        return voc.read_xml(annotations / split, names, labels=labels)

    splits = [split for split in ("train", "val") if (data / split).is_dir()]
    return {s: partial(Layout, f"ILSVRC, split {s}", data / s, partial(read, s)) for s in splits}


def _voc(root: Path) -> Splits | None:
    """Recognise JPEGImages and Annotations."""
    if not ((root / "JPEGImages").is_dir() and (root / "Annotations").is_dir()):
        return None
    masks = root / "SegmentationClass"
    for folder in (root / "Annotations", masks):
        refuse_link(folder, root)
    read = partial(voc.read_xml, root / "Annotations", voc=True, masks=masks if masks.is_dir() else None)
    lists = {path.stem: path for path in sorted((root / "ImageSets" / "Main").glob("*.txt"))}
    # cat_train.txt lists which photos of train show a cat: it is not a split.
    splits = {name: path for name, path in lists.items() if name.rpartition("_")[2] not in {*lists} - {name}}
    if not splits:
        return {"": lambda: Layout("Pascal VOC", root / "JPEGImages", read)}

    def layout(split: str) -> Layout:
        refuse_link(splits[split], root)
        with reading(splits[split]):
            lines = read_text(splits[split], MAX_ANNOTATIONS, errors="replace").splitlines()
        stems = frozenset(_listed(line) for line in lines if line.strip())
        return Layout(f"Pascal VOC, split {split}", root / "JPEGImages", read, stems)

    return {split: partial(layout, split) for split in splits}


def _listed(line: str) -> str:
    """Return the photo that a line of a list names, without the number after it that marks whether a class is present.

    >>> _listed("2008_000002 -1"), _listed("a cat")
    ('2008_000002', 'a cat')
    """
    words = line.split()
    return words[0] if len(words) == 2 and words[1] in ("-1", "0", "1") else line.strip()


def _coco(root: Path) -> Splits | None:
    """Recognise annotations/instances_<split>.json with the photos in <split> or images/<split>."""
    layouts: Splits = {}
    for path in sorted((root / "annotations").glob("instances_*.json")):
        split = path.stem.removeprefix("instances_")
        for photos in (root / split, root / "images" / split):
            if photos.is_dir():
                read = partial(_read_coco, root, path, photos)
                layouts[split] = partial(Layout, f"COCO, split {split}", photos, read)
                break
    return layouts or None


def _read_coco(root: Path, path: Path, photos: Path, names: Names) -> Annotations:
    refuse_link(path, root)
    return coco.read(path, photos, names)


def _tiny_imagenet(root: Path) -> Splits | None:
    """Recognise wnids.txt, train/WNID/WNID_boxes.txt and val/val_annotations.txt; the photos of test have no classes.

    The photos of val may have been sorted into class folders. A split without its text files has no boxes of its own;
    if both lack them, the folder is like any other.
    """
    train, val = root / "train", root / "val"
    boxes, table = any(train.glob("*/*" + tiny_imagenet.BOXES)), (val / tiny_imagenet.TABLE).is_file()
    if not (root / "wnids.txt").is_file() or not (boxes or table):
        return None
    photos = val / "images" if any(path.is_file() for path in (val / "images").glob("*")) else val
    read_train = partial(tiny_imagenet.read_train, root) if boxes else no_annotations
    read_val = partial(tiny_imagenet.read_val, root) if table else no_annotations
    return {
        split: partial(Layout, f"Tiny ImageNet, split {split}", folder, read)
        for split, folder, read in (("train", train, read_train), ("val", photos, read_val))
        if folder.is_dir()
    }


# To add a layout, add a function: it takes a root and returns the layout of each split, or None for other layouts.
LAYOUTS: dict[str, Callable[[Path], Splits | None]] = {
    "ILSVRC": _ilsvrc, "Pascal VOC": _voc, "COCO": _coco, "Tiny ImageNet": _tiny_imagenet,
}  # fmt: skip


def _split_folders(root: Path) -> list[str]:
    """Return folders such as train and val, if root has no others and they contain folders, the classes."""
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(folders) < 2 or not {folder.name for folder in folders} <= SPLIT_NAMES:
        return []
    return [folder.name for folder in folders if any(path.is_dir() for path in folder.iterdir())]


def _choose(root: Path, splits: list[str], split: str | None) -> str:
    """Return the split to open, or raise UserError if it is ambiguous or does not exist."""
    named = [name for name in splits if name]
    if split is None and len(named) > 1:
        raise UserError(f"{root} has the splits {', '.join(named)}: choose one with {option('split')}.")
    if split is None and splits:
        return splits[0]
    if split is None or split not in named:
        existing = f"it has {', '.join(named)}" if named else "it has no splits"
        raise UserError(f"{root} has no split {split}: {existing}.")
    return split


def _solutions(path: Path, names: Names) -> dict[str, str]:
    """Read the classes of ILSVRC's validation photos: ImageId, and PredictionString, which begins with the class."""
    rows = csv.read_rows(path, ("ImageId", "PredictionString"))
    found = ((names.find(row["ImageId"] or ""), (row["PredictionString"] or "").split()) for row in rows)
    return {name: words[0] for name, words in found if words and name is not None}
