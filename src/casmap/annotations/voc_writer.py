"""Pascal VOC: an XML file for each photo, as LabelImg and many others read it."""

from pathlib import Path
from xml.etree import ElementTree

from casmap.annotations.labelled import Labelled, place, xml
from casmap.io.atomic import write_whole
from casmap.io.names import unique_names

SET = "all"


def write_voc(photos: list[Labelled], out: Path) -> Path:
    """Write Annotations/, JPEGImages/ and ImageSets/Main/all.txt."""
    names = unique_names([photo.file for photo in photos])
    for photo in photos:
        file = f"{names[photo.file]}{photo.file.suffix}"
        place(photo.file, out / "JPEGImages" / file)
        write_whole(out / "Annotations" / f"{names[photo.file]}.xml", xml_of(photo, file))
    write_whole(out / "ImageSets" / "Main" / f"{SET}.txt", "".join(f"{names[photo.file]}\n" for photo in photos))
    return out / "Annotations"


def xml_of(photo: Labelled, file: str) -> str:
    """The file of one photo. VOC counts pixels from 1, and the last one is in the box."""
    root = ElementTree.Element("annotation")
    _texts(root, folder="JPEGImages", filename=file)
    _texts(ElementTree.SubElement(root, "source"), database="The VOC database", annotation="casmap")
    _texts(ElementTree.SubElement(root, "size"), width=photo.width, height=photo.height, depth=3)
    _texts(root, segmented=0)
    for one in photo.objects:
        x0, y0, x1, y1 = one.box
        item = ElementTree.SubElement(root, "object")
        _texts(item, name=one.label, pose="Unspecified", truncated=0, difficult=0)
        _texts(ElementTree.SubElement(item, "bndbox"), xmin=x0 + 1, ymin=y0 + 1, xmax=x1, ymax=y1)
    return xml(root)


def _texts(parent: ElementTree.Element, **texts: object) -> None:
    for tag, text in texts.items():
        ElementTree.SubElement(parent, tag).text = str(text)
