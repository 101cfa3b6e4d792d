"""Maps on disk: what took minutes to make is made once, and a stopped study goes on where it was."""

import hashlib
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from casmap.io.atomic import write_whole


class Kept(NamedTuple):
    """A map (h, w), and the seconds that it took."""

    map: npt.NDArray[np.float32]
    seconds: float


class Maps:
    """A map (h, w) for each method, photo and class: the predicted class, where it is the true one, is not asked twice.

    >>> import tempfile
    >>> maps = Maps(Path(tempfile.mkdtemp()))
    >>> maps.keep("CAM", "cat/1.jpg", 3, Kept(np.ones((2, 2), np.float32), seconds=0.5))
    >>> maps.find("CAM", "cat/1.jpg", 3).map.tolist(), maps.find("CAM", "cat/1.jpg", 4)
    ([[1.0, 1.0], [1.0, 1.0]], None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, method: str, photo: str, label: int) -> Kept | None:
        """The map, if it was made; a damaged file counts as none."""
        try:
            with np.load(self._path(method, photo, label)) as file:
                return Kept(file["map"].astype(np.float32), float(file["seconds"]))
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None

    def keep(self, method: str, photo: str, label: int, made: Kept) -> None:
        """Write the map, whole or not at all, as 16-bit numbers."""
        content = io.BytesIO()
        np.savez(content, map=made.map.astype(np.float16), seconds=made.seconds)
        write_whole(self._path(method, photo, label), content.getvalue())

    def _path(self, method: str, photo: str, label: int) -> Path:
        name = hashlib.sha256(photo.encode()).hexdigest()[:20]
        return self.folder / method.replace(" ", "-") / f"{name}-{label}.npz"
