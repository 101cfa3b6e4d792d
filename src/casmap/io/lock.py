"""One writer for each output folder: a lock that the kernel releases when its process ends, however it ends."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from casmap.errors import UserError, option
from casmap.reporting import SILENT, Reporter

LOCK = ".casmap.lock"


@contextmanager
def locked(folder: Path, reporter: Reporter = SILENT) -> Iterator[None]:
    """Hold the lock of an output folder, or raise UserError that names the process that holds it.

    The lock is `flock` on a hidden file, which is removed at the end. On file systems without locks (some network
    drives) a warning says that nothing protects the folder. Folders that were created here and stay empty are removed.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with locked(folder):
    ...     [path.name for path in folder.iterdir()]
    ['.casmap.lock']
    >>> list(folder.iterdir())
    []
    """
    try:
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        held = _acquire(folder / LOCK, reporter)
    except OSError as error:
        if file := next((path for path in (folder, *folder.parents) if path.is_file()), None):
            raise UserError(f"{file} is a file: give a folder to write to.") from error
        raise UserError(f"Cannot write to {folder}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        if held is not None:
            with suppress(OSError):  # while the lock is held, and only if it is this one: see _acquire
                if os.path.samestat(os.fstat(held), os.stat(folder / LOCK, follow_symlinks=False)):
                    (folder / LOCK).unlink()
            os.close(held)
        with suppress(OSError):  # one is not empty
            for path in new:
                path.rmdir()


def _acquire(path: Path, reporter: Reporter) -> int | None:
    """The descriptor that holds the lock; None where the file system has no locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return None
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)  # another process may have just removed it
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:
            continue
        except PermissionError as error:
            try:  # a file that another user's killed process left
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                raise error from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise UserError(
                f"{path.parent} is in use by {holder}: wait until it ends, or choose another folder ({option('out')})."
            ) from None
        except OSError as error:  # ENOLCK, ENOTSUP
            os.close(file)
            reporter.warning(
                f"The file system of {path.parent} has no locks ({error.strerror}): run one casmap there at a time."
            )
            return None
        # Another process may have removed the file between open and flock: then this lock protects nothing.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False)):
                about = {"pid": os.getpid(), "host": os.uname().nodename, "since": time.strftime("%H:%M:%S")}
                with suppress(OSError):  # opened only to read
                    os.truncate(file, 0)
                    os.pwrite(file, json.dumps(about).encode(), 0)
                return file
        os.close(file)


def _holder(file: int) -> str:
    """The process that holds a lock, as far as its file names it."""
    with suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
        about = json.loads(os.pread(file, 4096, 0))
        return f"process {int(about['pid'])} on {about['host']!s:.100} (since {about['since']!s:.20})"
    return "another process"
