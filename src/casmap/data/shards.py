"""Photos in tar files (WebDataset shards), on this disk or at any address that fsspec opens.

Millions of single files are slow to read, especially over a network. An index beside the shards gives the place of each
photo, so photos can be read in any order and a run can be resumed at any step. Photos are shuffled among a few shards
at a time, so each process downloads a remote shard once per epoch.
"""

import io
import os
import tarfile
import tempfile
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Lock

import numpy as np
import numpy.typing as npt

from casmap.data.folders import PhotoFolder
from casmap.data.photos import PhotoSet
from casmap.errors import UnreadableImage, UserError
from casmap.io.atomic import remove_temporary_files, whole_file, write_whole
from casmap.io.images import open_photo
from casmap.io.lock import locked
from casmap.io.reading import reading, refuse_link
from casmap.reporting import SILENT, Reporter

INDEX = "index.npz"
MEGABYTES = 256  # size of a shard
KEPT = 8  # downloaded shards kept on this disk
LARGEST = 1 << 50  # bytes of the largest possible shard
MAX_PHOTO = 2**30  # bytes of a photo
MAX_INDEX = 2**33  # bytes of the index: 100 million photos, with names of 50 bytes
DIGITS = 9  # of a photo's number

Order = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WrittenShards:
    """The folder that `write_shards` wrote, and the number of shards in it."""

    folder: Path
    shards: int


def write_shards(
    photos: PhotoFolder, out: Path, *, megabytes: float = MEGABYTES, reporter: Reporter = SILENT
) -> WrittenShards:
    """Write the files of photos unchanged into shards of about `megabytes` MB, and then their index.

    A photo is stored as NUMBER.jpg (with its own suffix) and NUMBER.cls, the number of its class, as in WebDataset.
    """
    import webdataset  # noqa: F401 (missing, it is reported before a folder is made)

    with locked(out, reporter):
        if (out / INDEX).exists():
            raise UserError(f"{out} already contains shards: choose another folder.")
        remove_temporary_files(out)
        return _write_shards(photos, out, megabytes, reporter)


def _write_shards(photos: PhotoFolder, out: Path, megabytes: float, reporter: Reporter) -> WrittenShards:
    import webdataset

    places: list[tuple[int, int, int]] = []
    number = shard = 0
    with reporter.progress("Packing photos", len(photos)) as advance:
        while number < len(photos):
            with whole_file(out / shard_name(shard)) as temporary:
                with webdataset.TarWriter(str(temporary)) as writer:
                    written = 0
                    while number < len(photos) and written < megabytes * 10**6:
                        path = photos.path(number)
                        try:
                            content = path.read_bytes()
                        except OSError as error:
                            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
                        key, kind = f"{number:0{DIGITS}}", path.suffix.lower().lstrip(".")
                        writer.write({"__key__": key, kind: content, "cls": int(photos.labels[number])})
                        written += len(content)
                        number += 1
                        advance()
                with tarfile.open(temporary, "r:") as archive:
                    members = sorted(archive, key=lambda one: one.name)
                    places += [(shard, one.offset_data, one.size) for one in members if not one.name.endswith(".cls")]
            shard += 1
    index = io.BytesIO()
    shards, offsets, lengths = np.array(places, np.int64).T
    np.savez(
        index, labels=photos.labels, shards=shards, offsets=offsets, lengths=lengths,
        names=_join_texts(photos.names), classes=_join_texts(photos.classes),
    )  # fmt: skip
    write_whole(out / INDEX, index.getvalue())
    return WrittenShards(out, shard)


def shard_name(number: int) -> str:
    """Return the file name of a shard.

    >>> shard_name(7)
    'shard-000007.tar'
    """
    return f"shard-{number:06}.tar"


def are_shards(data: str) -> bool:
    """Return whether DATA names shards: an address, or a folder with an index.

    >>> are_shards("s3://bucket/imagenet"), are_shards("photos")
    (True, False)
    """
    return "://" in data or (Path(data) / INDEX).is_file()


class Shards(PhotoSet):
    """The photos that `write_shards` wrote, at any address, with classes only; shards (N,): the shard of each photo."""

    understood = "shards, with the classes of the photos and no annotations"

    def __init__(self, address: str) -> None:
        import fsspec  # torch brings it

        self.address = address
        try:
            self._files, root = fsspec.core.url_to_fs(address)
            self._root = PurePosixPath(root)
            size = self._files.size(str(self._root / INDEX))  # None: the server does not say
            if (size or 0) > MAX_INDEX:
                raise UserError(f"The index of the shards at {address} has more than {MAX_INDEX >> 20} MB.")
            if self._local:
                _refuse_links(Path(self._root))
            content = self._files.cat_file(str(self._root / INDEX))
        except (OSError, ValueError, ImportError) as error:
            raise UserError(
                f"Cannot read shards from {address}: {_reason(error)}. Photos themselves must be in a local folder."
            ) from error
        with reading(address, f"The index of the shards at {address} is damaged."):
            _refuse_compressed(content)
            with np.load(io.BytesIO(content), allow_pickle=False) as index:
                self.labels = index["labels"].astype(np.int64)
                self.shards, self._offsets, self._lengths = (index[key] for key in ("shards", "offsets", "lengths"))
                self.names, self.classes = _split_texts(index["names"]), _split_texts(index["classes"])
            numbers = (self.labels, self.shards, self._offsets, self._lengths)
            fit = all(part.dtype.kind in "iu" and part.shape == (len(self.names),) for part in numbers)
            if not fit or not all((part >= 0).all() and (part < LARGEST).all() for part in numbers):
                raise ValueError("its parts do not fit together")
            if self.labels.max() >= len(self.classes):
                raise ValueError("a photo has an unknown class")
        self._downloaded: OrderedDict[int, Path] = OrderedDict()
        self._lock = Lock()  # photos are read in threads
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def _local(self) -> bool:
        """Whether the shards are on this machine."""
        return "file" in self._files.protocol

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Return photo number `index`: (H, W, 3) RGB."""
        start, length = int(self._offsets[index]), int(self._lengths[index])
        if length > MAX_PHOTO:
            raise UnreadableImage(f"{self.names[index]} has {length} bytes: the index of the shards is damaged.")
        try:
            with open(self._shard(int(self.shards[index])), "rb") as file:
                file.seek(start)
                content = file.read(min(length, os.fstat(file.fileno()).st_size))
        except OSError as error:
            raise UserError(f"{self.address}/{shard_name(int(self.shards[index]))}: {_reason(error)}.") from error
        if len(content) != length:
            raise UnreadableImage(f"{self.names[index]} is cut off: {shard_name(int(self.shards[index]))} is damaged.")
        return open_photo(content, name=self.names[index], least=least).image

    def _shard(self, number: int) -> Path:
        """Return the local file of a shard, downloading it if necessary."""
        if self._local:
            return Path(self._root) / shard_name(number)
        with self._lock:
            if number in self._downloaded:
                self._downloaded.move_to_end(number)
                return self._downloaded[number]
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="casmap-shards-")
            to = Path(self._folder.name) / shard_name(number)
            self._files.get_file(str(self._root / shard_name(number)), str(to))
            self._downloaded[number] = to
            while len(self._downloaded) > KEPT:
                self._downloaded.popitem(last=False)[1].unlink()  # a thread that has it open can still read it
            return to


def shard_order(shards: Order, rng: np.random.Generator, group: int = KEPT // 2) -> Order:
    """Shuffle photos (N,) so that few shards are in use at a time: shuffle the shards, then the photos in each group.

    shards: (N,) the shard of each photo. group: number of shards whose photos are mixed.

    >>> shard_order(np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(0), group=1).tolist()
    [2, 3, 4, 5, 1, 0]
    """
    which, inside = np.unique(shards, return_inverse=True)
    groups = rng.permutation(len(which))[inside] // group  # of each photo
    return np.lexsort((rng.random(len(shards)), groups))


def _refuse_links(folder: Path) -> None:
    """Raise UserError for an index or a shard that is a link out of the folder."""
    for entry in os.scandir(folder):
        if entry.is_symlink() and entry.name.endswith((".tar", ".npz")):
            refuse_link(Path(entry.path), folder)


def _refuse_compressed(content: bytes) -> None:
    """Raise ValueError for compressed arrays, of which 3 MB can become gigabytes; `write_shards` compresses nothing."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
            raise ValueError("its arrays are compressed")


def _join_texts(texts: list[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("\0".join(texts).encode("utf-8", "surrogateescape"), np.uint8)


def _split_texts(content: npt.NDArray[np.uint8]) -> list[str]:
    return content.tobytes().decode("utf-8", "surrogateescape").split("\0")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
