"""Find the photos that files, folders and glob patterns name. Links that lead out of a folder are not followed."""

import errno
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from casmap.errors import UserError
from casmap.io import heic
from casmap.io.decoding import IMAGE_SUFFIXES, is_url

# Photos that casmap does not open, but reports. Raw files start like TIFF files: Pillow would open their thumbnail.
RAW_SUFFIXES = (".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf")
UNSUPPORTED_SUFFIXES = frozenset((*RAW_SUFFIXES, *heic.SUFFIXES)) - IMAGE_SUFFIXES
AnyPath = TypeVar("AnyPath", str, Path)


def find_images(sources: Iterable[str | os.PathLike[str]], left_out: list[str] | None = None) -> list[Path]:
    """List the photos that files, folders and glob patterns name: in the order given, each once.

    A file is listed whatever its suffix. A folder is searched recursively. Folders and patterns give their visible
    files with a photo's suffix, sorted, and no HEIC copies of JPEGs. Raises UserError for a source without photos.
    Links that lead out of a folder are not followed, and folders that cannot be read are passed over: a sentence for
    each is added to `left_out`, or raised as UserError if that is None and the folder cannot be read.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in "b.jpg", "a.png", "notes.txt":
    ...     (folder / name).touch()
    >>> [path.name for path in find_images([folder / "b.jpg", folder])]
    ['b.jpg', 'a.png']
    """
    found: dict[str, Path] = {}
    closed: dict[str, str] = {}  # a sentence for each folder of a source that cannot be read
    passed_over: dict[str, str] = {}  # those of all sources

    def note(error: OSError) -> None:
        folder = os.fsdecode(error.filename)
        closed[folder] = f"{folder} is a folder that cannot be read: {error.strerror}."

    for source in map(Path, sources):
        closed.clear()
        if is_url(source):
            raise UserError(f"{str(source).replace(':/', '://', 1)} is a URL: download the file first.")
        try:
            if source.is_dir():
                inside = list(_visible(source, note))
                missing = f"The folder {source} contains no photos."
            elif source.exists():
                found.setdefault(os.path.abspath(source), source)
                continue
            else:
                inside = [Path(path) for path in glob.glob(str(source), recursive=True)]
                _note_closed(source, note)
                missing = f"{source} does not exist, and no photo matches it as a pattern."
            suffixes = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES
            images = [path for path in inside if path.suffix.lower() in suffixes and _is_file(path, note)]
            images = without_heic_copies(images)
            if source.is_dir():
                outside = {path for path in inside if links_outside(path, source)}
                if left_out is not None:
                    left_out += [f"{path} is a link that leads out of {source}." for path in sorted(outside)]
                images = [path for path in images if path not in outside]
                missing += " Links that lead out of it are not followed." * bool(outside)
        except OSError as error:
            raise UserError(f"Cannot read {source}: {error.strerror}.") from error
        if closed and (left_out is None or not images):
            raise UserError(next(iter(closed.values())))
        if not images:
            raise UserError(missing)
        passed_over |= closed
        for path in sorted(images):
            found.setdefault(os.path.abspath(path), path)
    if left_out is not None:
        left_out += passed_over.values()
    return list(found.values())


def _visible(folder: Path, note: Callable[[OSError], None]) -> Iterator[Path]:
    """The files and links below a folder; hidden ones are thumbnails, or the `._` companions that macOS writes."""
    for parent, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        yield from (Path(parent, name) for name in (*files, *links) if not name.startswith("."))


def _is_file(path: Path, note: Callable[[OSError], None]) -> bool:
    try:
        return path.is_file()
    except PermissionError as error:  # the folder may be listed, but not entered
        note(OSError(error.errno, error.strerror, str(path.parent)))
        return False


def _note_closed(pattern: Path, note: Callable[[OSError], None]) -> None:
    """Note the folders in which `glob` looks for a pattern and which it passes over in silence."""
    for parent in pattern.parents:
        if not glob.has_magic(str(parent)) and parent != _fixed(pattern):
            return  # it need not be listed, only passed through
        for folder in glob.glob(str(parent), recursive=True):
            if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK):
                note(OSError(errno.EACCES, os.strerror(errno.EACCES), folder))


def _fixed(pattern: Path) -> Path:
    """The folders of a pattern before its first wildcard."""
    return next(parent for parent in pattern.parents if not glob.has_magic(str(parent)))


def without_heic_copies(photos: list[AnyPath]) -> list[AnyPath]:
    """Return the photos without HEIC files next to a JPEG of the same name, which phones write of the same picture.

    Without the extra `heic` these files are ignored, too: the photos do not depend on what is installed.

    >>> without_heic_copies(["a/1.HEIC", "a/1.jpg", "a/2.heic", "b/1.heic"])
    ['a/1.jpg', 'a/2.heic', 'b/1.heic']
    """
    parts = [os.path.splitext(photo) for photo in photos]
    jpegs = {stem for stem, suffix in parts if suffix.lower() in (".jpg", ".jpeg")}
    copies = [suffix.lower() in heic.SUFFIXES and stem in jpegs for stem, suffix in parts]
    return [photo for photo, copy in zip(photos, copies, strict=True) if not copy]


def base_folder(sources: Iterable[str | os.PathLike[str]]) -> Path:
    """Return the folder to which the names of these photos are relative, as an absolute path.

    This is the folder given. Of a file, it is the folder the file is in; of a pattern, the folders before the first
    wildcard. Of several sources, it is the common parent of their folders.

    >>> base = base_folder(["trip/rome", "trip/oslo/1.jpg", "trip/*/2.jpg"])
    >>> base.relative_to(Path.cwd()).as_posix()
    'trip'
    """
    folders = []
    for source in sources:
        path = Path(source)
        if path.is_file():
            path = path.parent
        elif not path.exists():
            while glob.has_magic(str(path)):
                path = path.parent
        folders.append(os.path.abspath(path))
    return Path(os.path.commonpath(folders))


def links_outside(path: Path, folder: Path) -> bool:
    """Return whether a path in a folder is a link to something outside of the folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "in.jpg").symlink_to(folder / "a.jpg"), (folder / "out.jpg").symlink_to("/b.jpg")
    (None, None)
    >>> [links_outside(folder / name, folder) for name in ("a.jpg", "in.jpg", "out.jpg")]
    [False, False, True]
    """
    return os.path.islink(path) and not path.resolve().is_relative_to(folder.resolve())
