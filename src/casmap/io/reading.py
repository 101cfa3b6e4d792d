"""The boundary between casmap and files of others: whatever a parser raises becomes one sentence that names the file.

A parser of a malformed or hostile file can raise anything: RecursionError for nested lists, OverflowError for numbers
of 400 digits, MemoryError, struct.error. Readers wrap the parsing of a file, and nothing else, in `reading`, and read
no more of it than a stated number of bytes.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from casmap.errors import UserError

# Bytes of a file that annotates all photos: four times COCO's train2017, which has 450 MB. Parsed JSON takes about 5
# times the bytes of the file, and at worst, for empty lists, 20 times.
MAX_ANNOTATIONS = 2 * 2**30
MAX_OPTIONS = 10 * 2**20  # bytes of a file of options, which has a few thousand
MAX_YAML = 2**18  # bytes of a YAML file: enough for 10,000 classes; the parser takes up to 8 seconds for them
MAX_PIPE = 64 * 2**20  # bytes read from a pipe, whose size is unknown
SHOWN = 80  # characters of a value in a message


@contextmanager
def reading(path: str | os.PathLike[str], otherwise: str = "") -> Iterator[None]:
    """Parse a file of others in this block: any exception becomes a UserError, and a UserError passes unchanged.

    otherwise: the sentence for a file that cannot be parsed, which says what the file must be.

    >>> with reading("a.json", "a.json must be a COCO file."):
    ...     {}["images"]
    Traceback (most recent call last):
    casmap.errors.UserError: a.json must be a COCO file.
    """
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except Exception as error:  # a parser can raise anything
        if isinstance(error, OSError) and error.strerror:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
        raise UserError(otherwise or f"{path} is damaged.") from error


def read_bytes(path: str | os.PathLike[str], most: int = MAX_OPTIONS) -> bytes:
    """Return the content of a file; raise UserError for more than `most` bytes, before they are read.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = file.write_bytes(b"[1, 2]")
    >>> read_bytes(file)
    b'[1, 2]'
    >>> read_bytes(file, most=5)
    Traceback (most recent call last):
    casmap.errors.UserError: ...a.json is too large: it has more than 5 bytes.
    """
    size = limit_bytes(path, most)
    with open(path, "rb") as file:
        return file.read(size)


def read_text(path: str | os.PathLike[str], most: int = MAX_OPTIONS, errors: str = "strict") -> str:
    """Return the content of a file, UTF-8 with or without a byte order mark; see `read_bytes`."""
    return read_bytes(path, most).decode("utf-8-sig", errors)


def limit_bytes(path: str | os.PathLike[str], most: int) -> int:
    """Return the size of a file, or the number of bytes to read from a pipe; raise UserError if it exceeds `most`."""
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):
        return min(most, MAX_PIPE)
    if about.st_size > most:
        limit = f"{most >> 20} MB" if most >> 20 else f"{most >> 10} kB" if most >> 10 else f"{most} bytes"
        raise UserError(f"{path} is too large: it has more than {limit}.")
    return about.st_size


def parse_yaml(text: str) -> Any:
    """Parse YAML without objects and without aliases, by which a few hundred bytes become gigabytes.

    >>> parse_yaml("names: [cat, dog]")
    {'names': ['cat', 'dog']}
    >>> parse_yaml("[&a [x, x], *a]")
    Traceback (most recent call last):
    ValueError: it has the alias *a: write the value again instead
    """
    import yaml  # part of the extra train

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                anchor = self.peek_event().anchor  # type: ignore[no-untyped-call]
                raise ValueError(f"it has the alias *{anchor}: write the value again instead")
            return super().compose_node(parent, index)

    return yaml.load(text, Loader)


def refuse_link(path: Path, folder: Path) -> None:
    """Raise UserError if a file or folder that was found in `folder` is, through links, outside of it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "labels").symlink_to("/etc")
    >>> refuse_link(folder / "labels", folder)
    Traceback (most recent call last):
    casmap.errors.UserError: ...labels is a link that leads out of ...: it is not followed.
    """
    if not is_inside(path, folder):
        raise UserError(f"{path} is a link that leads out of {folder}: it is not followed.")


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path, after all links, is in a folder.

    >>> is_inside(Path("photos/../secret"), Path("photos"))
    False
    """
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a NUL character
        return False


def shown(value: object) -> str:
    """Return a value of a file for use in a message: on one line, and not too long.

    >>> shown("a cat"), shown("x" * 1000)[-9:], shown(10**5000)
    ("'a cat'", 'xxxxxx...', 'a very large number')
    """
    try:
        text = repr(value[: SHOWN + 1] if isinstance(value, str) else value)
    except (ValueError, RecursionError):  # more digits than Python prints, or lists in lists
        return "a very large number" if isinstance(value, int) else "a very deep value"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
