"""Write files atomically: into a temporary file in the same folder, which is synced and then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from casmap.errors import UserError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` if the block ends without an error.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}~{os.urandom(4).hex()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        default_mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(default_mode)  # safetensors creates private files, but mappings are shared
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except UserError:  # raised by the block itself: UnreadableImage is an OSError, too
        raise
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder; no process may be writing there.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("log.csv", ".log~0123abcd.csv", ".notes-20261117.md"):
    ...     (folder / name).touch()
    >>> remove_temporary_files(folder)
    >>> sorted(p.name for p in folder.iterdir())
    ['.notes-20261117.md', 'log.csv']
    """
    for temporary in folder.glob(f".*~{'[0-9a-f]' * 8}*"):
        temporary.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text (as UTF-8) or bytes to `path` atomically, creating its folder.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "new" / "a.txt"
    >>> write_whole(file, "text")
    >>> file.read_text()
    'text'
    """
    with whole_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
