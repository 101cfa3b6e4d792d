"""Names of files: any name as text, names that are safe to write, and a unique name for the output of each photo.

A file name is bytes, and not all of them are text. Python gives an undecodable byte as a lone surrogate, which no text
file can hold. In text files casmap writes it as `\\xe9`, and control characters likewise.
"""

import os
import re
from collections import Counter
from collections.abc import Collection
from itertools import count
from pathlib import Path

LONGEST = 240  # bytes of a name; a file name may have 255, and -masked-out.png or a suffix follows
DIGITS = 8  # of the hash in a shortened name
# Control characters, line separators, characters that reverse the direction of text, and undecodable bytes.
_HIDDEN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPES = re.compile(r"(?:\\x[0-9a-f]{2})+")


def escaped(text: str) -> str:
    """Return text in one line that a terminal or a text file can show: `\\xHH` for each byte of a hidden character.

    >>> escaped("caf" + bytes([233]).decode("utf-8", "surrogateescape") + ".jpg"), escaped("a" + chr(10) + "b")
    ('caf\\\\xe9.jpg', 'a\\\\x0ab')
    """
    return text if text.isprintable() else _HIDDEN.sub(lambda hidden: _hexadecimal(hidden[0]), text)


def written(name: str) -> str:
    """Return a file name as it is written to text files; `read_name` gives the name back, whatever it contains.

    >>> written("caf" + bytes([233]).decode("utf-8", "surrogateescape")), written("a" + chr(92) + "xe9")
    ('caf\\\\xe9', 'a\\\\x5cxe9')
    """
    return escaped(re.sub(r"\\(?=x[0-9a-f]{2})", r"\\x5c", name) if r"\x" in name else name)


def read_name(text: str) -> str:
    """Return the file name that `written` has written.

    >>> read_name("caf" + chr(92) + "xe9.jpg").encode("utf-8", "surrogateescape") == b"caf" + bytes([233]) + b".jpg"
    True
    """
    if r"\x" not in text:
        return text
    return _ESCAPES.sub(lambda run: bytes.fromhex(run[0].replace(r"\x", "")).decode("utf-8", "surrogateescape"), text)


def _hexadecimal(character: str) -> str:
    undecodable = "\udc80" <= character <= "\udcff"
    content = character.encode(errors="surrogateescape" if undecodable else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in content)


def file_name(name: str) -> str:
    """Return a name that stays in its folder, is text, and leaves room for an ending: one that does not is changed.

    A long name keeps its beginning, and a hash follows.

    >>> file_name("../12:30"), file_name("bell" + chr(7)), file_name("x" * 300)[-12:]
    ('..-12-30', 'bell-x07', 'xxx-0d4e2ca9')
    """
    safe = re.sub(r"[\\/:]", "-", escaped(name))
    content = safe.encode()
    if len(content) <= LONGEST:
        return safe
    import hashlib  # loads OpenSSL, which few names need

    return f"{content[: LONGEST - DIGITS - 1].decode(errors='ignore')}-{hashlib.sha256(content).hexdigest()[:DIGITS]}"


def unique_names(
    paths: list[Path], earlier: dict[str, str] | None = None, taken: Collection[str] = ()
) -> dict[Path, str]:
    """Give each photo a name for its output files.

    The name is the photo's stem. Photos with the same stem get their folder's name in front and, if that is not enough,
    a number at the end. earlier: names given before, by absolute path; these photos keep them. taken: names that no
    photo may get.

    >>> paths = [Path("a/cat.jpg"), Path("b/cat.jpg"), Path("b/cat.png"), Path("b/dog.jpg")]
    >>> list(unique_names(paths).values())
    ['a-cat', 'b-cat', 'b-cat-2', 'dog']
    """
    earlier = earlier or {}
    absolute = {path: os.path.abspath(path) for path in paths}
    stems = {path: file_name(path.stem) for path in paths}
    used = {*earlier.values(), *taken}
    unique = {stem for stem, uses in Counter(stems.values()).items() if uses == 1} - used
    used |= unique
    names = {}
    for path, stem in stems.items():
        if absolute[path] in earlier:
            names[path] = earlier[absolute[path]]
        elif stem in unique:
            names[path] = stem
        else:
            base = f"{Path(absolute[path]).parent.name}-{path.stem}"
            numbered = (file_name(base if n == 1 else f"{base}-{n}") for n in count(1))
            names[path] = next(name for name in numbered if name not in used)
            used.add(names[path])
    return names
