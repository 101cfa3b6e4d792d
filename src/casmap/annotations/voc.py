"""Boxes in XML files, one for each photo, as Pascal VOC began it: ILSVRC, LabelImg and many others do the same."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from casmap.annotations.masks import voc_mask
from casmap.annotations.types import (
    NOTHING,
    Annotations,
    Box,
    Kind,
    Known,
    LeftOut,
    Names,
    Problem,
    Size,
    Thing,
    area,
    edges,
)

LONGEST = 10 * 2**20  # bytes of an XML file; those of ILSVRC and VOC have some thousands


def read_xml(
    folder: Path,
    names: Names,
    voc: bool = False,
    labels: Mapping[str, str] | None = None,
    masks: Path | None = None,
) -> Annotations:
    """A folder of XML files, named as the photos; each is parsed when its photo is looked at.

    voc: all coordinates are VOC's; else those of files whose <database> is. masks: VOC's folder of index pictures.
    """
    files: dict[str, Path] = {}
    problems = []
    for path in sorted(folder.rglob("*.xml")):
        said = path.relative_to(folder)
        if any(part.startswith(".") for part in said.parts):
            continue
        name = names.find(said.with_suffix("").as_posix())
        if name is None:
            problems.append(Problem(Kind.NO_PHOTO, said.as_posix()))
        else:
            files.setdefault(name, path)

    def of(name: str) -> Known:
        known = parse_xml(files[name], voc) if name in files else NOTHING
        if masks is None or name not in files:
            return known
        picture = masks / f"{Path(name).stem}.png"
        mask = partial(voc_mask, picture) if picture.is_file() else None
        return Known(known.things, known.size, mask=mask, problems=known.problems)

    kind = "boxes from XML files" + ("" if masks is None else f", masks from {masks.name}")
    return Annotations(kind, of, labels or {}, problems=problems)


def parse_xml(path: Path, voc: bool = False) -> Known:
    """All objects of one file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.xml"
    >>> box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox>"
    >>> _ = file.write_text(f"<annotation><object><name>cat</name>{box}</object></annotation>")
    >>> parse_xml(file).things[0].box, parse_xml(file, voc=True).things[0].box
    ((1.0, 2.0, 30.0, 40.0), (0.0, 1.0, 30.0, 40.0))
    """
    try:
        root = xml_root(path)
    except LeftOut as bad:
        return Known(problems=[bad.problem(path.name)])
    # VOC counts pixels from 1 and its last pixel is in the box. ILSVRC's numbers begin at 0, and LabelImg writes the
    # corners that were drawn: both are taken as edges as they are, at most a pixel from any other reading.
    voc = voc or "VOC" in (root.findtext("source/database") or "")
    things, problems = [], []
    for item in root.findall("object"):
        try:
            box = _box(item.find("bndbox"), voc)
        except LeftOut as bad:
            problems.append(bad.problem(path.name))
        else:
            name = (item.findtext("name") or "").strip()
            things.append(Thing(name, box, area(box), (item.findtext("difficult") or "").strip() == "1"))
    return Known(things, _size(root), problems=problems)


def xml_root(path: Path, longest: int = LONGEST) -> ElementTree.Element:
    """The tree of a file that is neither too long nor dangerous; else LeftOut is raised."""
    try:
        if path.stat().st_size > longest:
            raise LeftOut(Kind.MALFORMED, f"it has more than {longest >> 20} MB")
        # Decoded here, so that no other encoding can hide what is looked for: entities blow up, or open other files.
        text = path.read_bytes().decode("utf-8-sig", "replace")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise LeftOut(Kind.MALFORMED, "it has a DOCTYPE, which is not opened for safety")
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, OSError, RecursionError) as error:
        raise LeftOut(Kind.MALFORMED, "it is not whole XML") from error


def _box(item: ElementTree.Element | None, voc: bool) -> Box:
    if item is None:
        raise LeftOut(Kind.BOX_LEFT_OUT, "an object has no box")
    texts = [item.findtext(side) for side in ("xmin", "ymin", "xmax", "ymax")]
    if not voc:
        return edges(texts)
    try:
        x0, y0 = (float(text or "") - 1 for text in texts[:2])
    except ValueError:
        return edges(texts)  # which says what is wrong
    return edges([x0, y0, *texts[2:]])


def _size(root: ElementTree.Element) -> Size | None:
    texts = [(root.findtext(f"size/{side}") or "").strip() for side in ("width", "height")]
    if not all(text.isdecimal() and len(text) < 10 and int(text) for text in texts):
        return None  # VOC's imitators often write 0
    return int(texts[0]), int(texts[1])
