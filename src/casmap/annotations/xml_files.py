"""XML in and out: files that may be hostile, and names that XML cannot hold."""

import re
from pathlib import Path
from xml.etree import ElementTree

from casmap.annotations.types import Kind, Size, Skipped

LONGEST = 10 * 2**20  # bytes of an XML file; those of ILSVRC and VOC have some thousands


def xml_root(path: Path, longest: int = LONGEST) -> ElementTree.Element:
    """The tree of a file that is neither too long nor dangerous; else Skipped is raised."""
    try:
        if path.stat().st_size > longest:
            raise Skipped(Kind.MALFORMED, f"it has more than {longest >> 20} MB")
        # Decoded here, so that no other encoding can hide what is looked for: entities blow up, or open other files.
        text = path.read_bytes().decode("utf-8-sig", "replace")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise Skipped(Kind.MALFORMED, "it has a DOCTYPE, which is not opened for safety")
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, OSError, RecursionError) as error:
        raise Skipped(Kind.MALFORMED, "it is not whole XML") from error


def xml_size(width: str, height: str) -> Size | None:
    """The size that two texts tell; None where it is none: VOC's imitators often write 0."""
    told = all(text.isdecimal() and len(text) < 10 and int(text) for text in (width, height))
    return (int(width), int(height)) if told else None


def xml_text(root: ElementTree.Element) -> str:
    """A tree as text; characters that XML cannot hold, and names of files may, become question marks.

    >>> xml_text(ElementTree.Element("photo", name="bell\\a.jpg"))
    '<photo name="bell?.jpg" />\\n'
    """
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text) + "\n"
