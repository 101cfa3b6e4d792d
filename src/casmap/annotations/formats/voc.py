"""Pascal VOC: an XML file for each photo; ILSVRC, LabelImg and many others use the same format."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import PIL.Image

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled, copy_photos
from casmap.annotations.regions import check_size, collect_objects, four_numbers, object_from_box
from casmap.annotations.types import (
    NO_RECORD,
    AnnotatedObject,
    Annotations,
    Kind,
    Mask,
    Names,
    PhotoRecord,
    Size,
    Skipped,
)
from casmap.annotations.xml_files import xml_root, xml_size, xml_text
from casmap.io.atomic import write_whole
from casmap.io.reading import is_inside, refuse_link

SET = "all"
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
VOC_VOID = 255  # the index of the border around objects


def recognises(path: Path) -> bool:
    """Return whether a path is a folder that contains XML files."""
    return path.is_dir() and next(path.rglob("*.xml"), None) is not None


def read_xml(
    folder: Path, names: Names, voc: bool = False, labels: Mapping[str, str] | None = None, masks: Path | None = None
) -> Annotations:
    """Read a folder of XML files named like the photos; each is parsed on demand.

    voc: all coordinates are VOC's; otherwise only those of files with VOC in <database>. masks: VOC's folder of masks,
    whose pixels are class indices.
    """
    files, problems = names.files(folder, ".xml")

    def of(name: str) -> PhotoRecord:
        if name not in files:
            return NO_RECORD
        known, mask = parse_xml(files[name], voc), masks and masks / f"{Path(name).stem}.png"
        return replace(known, mask=partial(voc_mask, mask)) if mask and mask.is_file() else known

    kind = "boxes from XML files" + ("" if masks is None else f", masks from {masks.name}")
    return Annotations(kind, of, labels or {}, problems=problems)


def parse_xml(path: Path, voc: bool = False) -> PhotoRecord:
    """Read all objects of one file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.xml"
    >>> box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>"
    >>> _ = file.write_text(f"<annotation><object><name>cat</name>{box}</object></annotation>")
    >>> parse_xml(file).objects[0].box, parse_xml(file, voc=True).objects[0].box
    ((1.0, 2.0, 30.0, 40.0), (0.0, 1.0, 30.0, 40.0))
    """
    try:
        root = xml_root(path)
    except Skipped as skipped:
        return PhotoRecord(problems=[skipped.problem(path.name)])
    # VOC counts pixels from 1 and includes the last pixel. ILSVRC counts from 0, and LabelImg writes the corners as
    # drawn: both are used as edges unchanged, which differs from any other interpretation by at most a pixel.
    voc = voc or "VOC" in (root.findtext("source/database") or "")
    width, height = ((root.findtext(f"size/{side}") or "").strip() for side in ("width", "height"))
    parsers = [partial(_parse_object, item, voc) for item in root.findall("object")]
    return collect_objects(path.name, parsers, size=xml_size(width, height))


def _parse_object(item: ElementTree.Element, voc: bool) -> AnnotatedObject:
    box = item.find("bndbox")
    if box is None:
        raise Skipped(Kind.BOX_SKIPPED, "an object has no bndbox")
    x0, y0, x1, y1 = four_numbers(box.findtext(side) for side in ("xmin", "ymin", "xmax", "ymax"))
    difficult = (item.findtext("difficult") or "").strip() == "1"
    return object_from_box((item.findtext("name") or "").strip(), (x0 - voc, y0 - voc, x1, y1), difficult=difficult)


def voc_mask(path: Path, objects: Sequence[AnnotatedObject], size: Size) -> Mask | None:
    """Return the mask (H, W) of the objects' class from a file in SegmentationClass; the border is 128, not counted.

    Returns None if the class is not one of VOC's twenty, which have the indices 1 to 20.
    """
    if not is_inside(path, path.parent):
        raise Skipped(Kind.MASK_SKIPPED, f"the mask {path.name} is a link that leads out of {path.parent}")
    name = objects[0].name if objects else ""
    if name not in VOC_CLASSES:
        return None
    try:
        with PIL.Image.open(path, formats=("PNG",)) as image:
            check_size(image.size, size)
            if image.mode not in ("P", "L"):
                raise Skipped(Kind.MASK_SKIPPED, f"the mask {path.name} has colours instead of class indices")
            indices = np.asarray(image)  # the indices of the palette, not its colours
    except Skipped:
        raise
    except Exception as error:  # decoders raise errors of many types
        raise Skipped(Kind.MASK_SKIPPED, f"the mask {path.name} cannot be opened") from error
    mask = np.where(indices == VOC_CLASSES.index(name) + 1, np.uint8(255), np.uint8(0))
    mask[indices == VOC_VOID] = 128
    return mask


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write Annotations/, JPEGImages/ (copies of the photos) and ImageSets/Main/all.txt."""
    names = copy_photos(photos, out / "JPEGImages")
    for photo in photos:
        stem, name = names[photo.file]
        root = ElementTree.Element("annotation")
        _add_texts(root, folder="JPEGImages", filename=name)
        _add_texts(ElementTree.SubElement(root, "source"), database="The VOC database", annotation="casmap")
        _add_texts(ElementTree.SubElement(root, "size"), width=photo.width, height=photo.height, depth=3)
        _add_texts(root, segmented=0)
        for one in photo.objects:
            x0, y0, x1, y1 = one.box  # VOC counts pixels from 1 and includes the last one
            item = ElementTree.SubElement(root, "object")
            _add_texts(item, name=one.label, pose="Unspecified", truncated=0, difficult=0)
            _add_texts(ElementTree.SubElement(item, "bndbox"), xmin=x0 + 1, ymin=y0 + 1, xmax=x1, ymax=y1)
        write_whole(out / "Annotations" / f"{stem}.xml", xml_text(root))
    write_whole(out / "ImageSets" / "Main" / f"{SET}.txt", "".join(f"{names[photo.file][0]}\n" for photo in photos))
    return out / "Annotations"


def _add_texts(parent: ElementTree.Element, **texts: object) -> None:
    for tag, text in texts.items():
        ElementTree.SubElement(parent, tag).text = str(text)


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read a folder of XML files, or a folder that `write` made, which has them in Annotations."""
    inner = path / "Annotations"
    refuse_link(inner, path)
    return read_xml(inner if inner.is_dir() else path, names)


FORMATS.register("voc")(Format(recognises, read, write))
