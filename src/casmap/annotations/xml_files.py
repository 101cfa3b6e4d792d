"""Read untrusted XML files safely, and write XML without characters that it cannot represent."""

import re
from pathlib import Path
from xml.etree import ElementTree

from casmap.annotations.types import Kind, Size, Skipped

MAX_BYTES = 10 * 2**20  # of an XML file; those of ILSVRC and VOC have a few thousand


def xml_root(path: Path, max_bytes: int = MAX_BYTES) -> ElementTree.Element:
    """Parse a file and return its root element; raise Skipped if it is too large, unsafe or damaged."""
    try:
        if path.stat().st_size > max_bytes:
            raise Skipped(Kind.MALFORMED, f"it has more than {max_bytes >> 20} MB")
        # Decode first, so that no other encoding can hide an entity.
        return parse_xml_text(path.read_bytes().decode("utf-8-sig", "replace"))
    except OSError as error:
        raise Skipped(Kind.MALFORMED, "it is not well-formed XML") from error


def parse_xml_text(text: str) -> ElementTree.Element:
    """Parse XML and return its root element; raise Skipped if it has entities or is damaged.

    Entities can expand without limit or open files.

    >>> parse_xml_text("<!DOCTYPE a><a/>")
    Traceback (most recent call last):
    casmap.annotations.types.Skipped: it has a DOCTYPE, which is refused as unsafe
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Skipped(Kind.MALFORMED, "it has a DOCTYPE, which is refused as unsafe")
    try:
        return ElementTree.fromstring(text)
    except Exception as error:  # a parser can raise anything
        raise Skipped(Kind.MALFORMED, "it is not well-formed XML") from error


def xml_size(width: str, height: str) -> Size | None:
    """Return width and height as numbers, or None: many tools write 0 for an unknown size."""
    valid = all(text.isdecimal() and len(text) < 10 and int(text) for text in (width, height))
    return (int(width), int(height)) if valid else None


def xml_text(root: ElementTree.Element) -> str:
    """Return a tree as text; characters that are valid in file names but not in XML become question marks.

    >>> xml_text(ElementTree.Element("photo", name="bell\\a.jpg"))
    '<photo name="bell?.jpg" />\\n'
    """
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text) + "\n"
