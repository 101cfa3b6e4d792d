"""Which photos a user means: files, folders and patterns, and links that are not followed."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from casmap.errors import UserError
from casmap.io.images import IMAGE_SUFFIXES

# Photos all the same, though none that is opened: who gives a folder of them should hear it. (Raw files have the head
# of a TIFF, and Pillow would take their thumbnail for the photo.)
FOREIGN_SUFFIXES = frozenset((".heic", ".heif", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"))


def find_images(sources: Iterable[str | os.PathLike[str]], left_out: list[str] | None = None) -> list[Path]:
    """List the images that files, folders and glob patterns name: in the order given, each once.

    A named file is taken whatever its suffix. Folders are searched to the bottom, and folders and patterns give their
    visible files with a suffix of a photo, sorted. A source that gives nothing raises UserError. Links that lead out
    of a folder are not followed: `left_out` gets a sentence for each.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in "b.jpg", "a.png", "notes.txt":
    ...     (folder / name).touch()
    >>> [path.name for path in find_images([folder / "b.jpg", folder])]
    ['b.jpg', 'a.png']
    """
    found: dict[str, Path] = {}
    for source in map(Path, sources):
        try:
            if source.is_dir():  # hidden files, thumbnails and the `._` twins of macOS, are nobody's photos
                below = [(path, path.relative_to(source).parts) for path in source.rglob("*")]
                inside = [path for path, parts in below if not any(part.startswith(".") for part in parts)]
                missing = f"There is no image in the folder {source}."
            elif source.exists():
                found.setdefault(os.path.abspath(source), source)
                continue
            else:
                inside = [Path(path) for path in glob.glob(str(source), recursive=True)]
                missing = f"{source} does not exist, and no image matches it as a pattern."
            suffixes = IMAGE_SUFFIXES | FOREIGN_SUFFIXES
            images = [path for path in inside if path.suffix.lower() in suffixes and path.is_file()]
            if source.is_dir():
                out = {path for path in inside if leads_out(path, source)}
                if left_out is not None:
                    left_out += [f"{path} is a link that leads out of {source}." for path in sorted(out)]
                images = [path for path in images if path not in out]
                missing += f" {len(out)} links lead out of it, and are not followed." * bool(out)
        except OSError as error:
            raise UserError(f"Cannot look at {source}: {error.strerror}.") from error
        if not images:
            raise UserError(missing)
        for path in sorted(images):
            found.setdefault(os.path.abspath(path), path)
    return list(found.values())


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path in a folder is a link to something outside of it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "in.jpg").symlink_to(folder / "a.jpg"), (folder / "out.jpg").symlink_to("/b.jpg")
    (None, None)
    >>> [leads_out(folder / name, folder) for name in ("a.jpg", "in.jpg", "out.jpg")]
    [False, False, True]
    """
    return path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
