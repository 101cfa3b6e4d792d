"""Write files atomically: into a temporary file in the same folder, which is synced and then renamed."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from casmap.errors import UserError
from casmap.io.names import escaped

NAME_BYTES = 255  # of the longest file name
TEMPORARY = re.compile(r"\..*~[0-9a-f]{8}(\.[^.]{0,18})?")  # what `temporary_name` makes


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
    with aside(path) as temporary:
        yield temporary
    try:
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; if the block ends without an error, the file is complete on the disk.

    >>> import tempfile
    >>> with aside(Path(tempfile.mkdtemp()) / "a.txt") as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> temporary.read_text()
    'all of it'
    """
    temporary = temporary_name(path)
    complete = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        default_mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(default_mode)  # safetensors creates private files, but mappings are shared
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        complete = True
    except UserError:  # raised by the block itself: UnreadableImage is an OSError, too
        raise
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        if not complete:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_aside(path: Path, content: bytes) -> Path:
    """Write a temporary file beside `path` and return its path; it is complete on the disk after `sync_files`.

    >>> import tempfile
    >>> write_aside(Path(tempfile.mkdtemp()) / "a.txt", b"all of it").read_text()
    'all of it'
    """
    temporary = temporary_name(path)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error
    return temporary


def sync_files(paths: Iterable[Path]) -> None:
    """Wait until the content of files is on the disk. One call for many files is cheaper than one after each."""
    for path in paths:
        try:
            with open(path, "rb", buffering=0) as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


def temporary_name(path: Path) -> Path:
    """A hidden name beside `path` that no other file has; it is text and no longer than a name may be.

    >>> len(temporary_name(Path("x" * 255)).name), temporary_name(Path("a.txt")).suffix
    (255, '.txt')
    """
    end = f"~{os.urandom(4).hex()}{path.suffix if path.suffix.isascii() and len(path.suffix) < 20 else ''}"
    start = f".{path.stem}".encode(errors="ignore")[: NAME_BYTES - len(end)].decode(errors="ignore")
    return path.with_name(start + end)


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
        if TEMPORARY.fullmatch(temporary.name) and not temporary.is_dir():
            temporary.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text (as UTF-8) or bytes to `path` atomically, creating its folder.

    Undecodable bytes of file names in a text are written as `\\xe9`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "new" / "a.txt"
    >>> write_whole(file, "text")
    >>> file.read_text()
    'text'
    """
    with whole_file(path) as temporary:
        temporary.write_bytes(_utf8(content) if isinstance(content, str) else content)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "\n".join(map(escaped, text.split("\n"))).encode()


def append(path: Path, text: str, sync: bool = False) -> None:
    """Append text to a file, which is created if needed; a link of that name is replaced, not followed.

    >>> import tempfile
    >>> log = Path(tempfile.mkdtemp()) / "run.log"
    >>> append(log, "one "), append(log, "two")
    (None, None)
    >>> log.read_text()
    'one two'
    """
    # Windows has none of the last three. NONBLOCK: a pipe of that name is not waited for.
    posix = [getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | posix[0] | posix[1] | posix[2]
    try:
        try:
            file = os.open(path, flags, 0o666)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            path.unlink()
            file = os.open(path, flags | os.O_EXCL, 0o666)
        with open(file, "wb", buffering=0) as opened:
            content = memoryview(_utf8(text))
            while content:
                content = content[opened.write(content) :]
            if sync:
                os.fsync(file)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


def own_folder(path: Path) -> Path:
    """Create a folder inside an output folder; raise UserError if it is a link, which would lead out of it.

    >>> import tempfile
    >>> own_folder(Path(tempfile.mkdtemp()) / "parts").is_dir()
    True
    """
    if path.is_symlink():
        raise UserError(f"{path} is a link, and casmap does not write through links: remove it.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror or error}.") from error
    return path
