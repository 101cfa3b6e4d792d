"""Files appear whole or not at all: written aside, synced, renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from casmap.errors import UserError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; rename it to `path` when the block ends well.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "a.txt") as aside:
    ...     _ = aside.write_text("all of it")
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    path = Path(path)
    aside = path.with_name(f".{path.stem}~{os.urandom(4).hex()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.touch()
        usual = aside.stat().st_mode
        yield aside
        aside.chmod(usual)  # safetensors makes its files private, and colleagues share mappings
        with open(aside, "rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except UserError:  # of the block itself: an UnreadableImage is an OSError
        raise
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def remove_asides(folder: Path) -> None:
    """Remove what processes that were killed had begun to write into a folder; nobody may be writing there now.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("log.csv", ".log~0123abcd.csv", ".notes-20261117.md"):
    ...     (folder / name).touch()
    >>> remove_asides(folder)
    >>> sorted(p.name for p in folder.iterdir())
    ['.notes-20261117.md', 'log.csv']
    """
    for aside in folder.glob(f".*~{'[0-9a-f]' * 8}*"):
        aside.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text or bytes to `path`, whole or not at all."""
    with whole_file(path) as aside:
        aside.write_bytes(content.encode() if isinstance(content, str) else content)
