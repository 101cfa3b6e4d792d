"""CVAT: one XML file for all photos, in its format "CVAT for images 1.1"."""

from pathlib import Path
from xml.etree import ElementTree

from casmap.annotations.labelled import Labelled, xml
from casmap.io.atomic import write_whole

FILE = "annotations.xml"


def write_cvat(photos: list[Labelled], labels: list[str], out: Path) -> Path:
    """Write annotations.xml: a box and a polygon for each object."""
    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    task = ElementTree.SubElement(ElementTree.SubElement(root, "meta"), "task")
    known = ElementTree.SubElement(task, "labels")
    for label in labels:
        item = ElementTree.SubElement(known, "label")
        ElementTree.SubElement(item, "name").text = label
        ElementTree.SubElement(item, "attributes")
    for number, photo in enumerate(photos):
        size = {"id": str(number), "name": photo.name, "width": str(photo.width), "height": str(photo.height)}
        image = ElementTree.SubElement(root, "image", size)
        for one in photo.objects:
            shared = {"label": one.label, "source": "auto", "occluded": "0", "z_order": "0"}
            edges = dict(zip(("xtl", "ytl", "xbr", "ybr"), map(str, one.box), strict=True))
            ElementTree.SubElement(image, "box", shared | edges)
            points = ";".join(f"{x:.2f},{y:.2f}" for x, y in one.polygon)
            ElementTree.SubElement(image, "polygon", shared | {"points": points})
    write_whole(out / FILE, xml(root))
    return out / FILE
