"""Find the photos that files, folders and glob patterns name. Links that lead out of a folder are not followed."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from casmap.errors import UserError
from casmap.io import heic
from casmap.io.images import IMAGE_SUFFIXES, is_url

# Photos that casmap does not open, but reports. Raw files start like TIFF files: Pillow would open their thumbnail.
RAW_SUFFIXES = (".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf")
UNSUPPORTED_SUFFIXES = frozenset((*RAW_SUFFIXES, *heic.SUFFIXES)) - IMAGE_SUFFIXES


def find_images(sources: Iterable[str | os.PathLike[str]], left_out: list[str] | None = None) -> list[Path]:
    """List the photos that files, folders and glob patterns name: in the order given, each once.

    A file is listed whatever its suffix. A folder is searched recursively. Folders and patterns give their visible
    files with a photo's suffix, sorted. Raises UserError for a source without photos. Links that lead out of a folder
    are not followed: a sentence for each is added to `left_out`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in "b.jpg", "a.png", "notes.txt":
    ...     (folder / name).touch()
    >>> [path.name for path in find_images([folder / "b.jpg", folder])]
    ['b.jpg', 'a.png']
    """
    found: dict[str, Path] = {}
    for source in map(Path, sources):
        if is_url(source):
            raise UserError(f"{str(source).replace(':/', '://', 1)} is a URL: download the file first.")
        try:
            if source.is_dir():  # hidden files are thumbnails, or the `._` companions that macOS writes
                below = [(path, path.relative_to(source).parts) for path in source.rglob("*")]
                inside = [path for path, parts in below if not any(part.startswith(".") for part in parts)]
                missing = f"There is no image in the folder {source}."
            elif source.exists():
                found.setdefault(os.path.abspath(source), source)
                continue
            else:
                inside = [Path(path) for path in glob.glob(str(source), recursive=True)]
                missing = f"{source} does not exist, and no image matches it as a pattern."
            suffixes = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES
            images = [path for path in inside if path.suffix.lower() in suffixes and path.is_file()]
            if source.is_dir():
                outside = {path for path in inside if links_outside(path, source)}
                if left_out is not None:
                    left_out += [f"{path} is a link that leads out of {source}." for path in sorted(outside)]
                images = [path for path in images if path not in outside]
                missing += f" {len(outside)} links lead out of it and are not followed." * bool(outside)
        except OSError as error:
            raise UserError(f"Cannot read {source}: {error.strerror}.") from error
        if not images:
            raise UserError(missing)
        for path in sorted(images):
            found.setdefault(os.path.abspath(path), path)
    return list(found.values())


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
    return path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
