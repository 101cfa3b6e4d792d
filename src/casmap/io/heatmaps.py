"""Read heatmaps that other programs wrote: PNG files of 8 or 16 bits, NPY and NPZ files. Nothing is unpickled."""

import io
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from casmap.io.arrays import min_max
from casmap.io.decoding import errors_of
from casmap.io.size_limits import MAX_PIXELS, check_size

SUFFIXES = (".png", ".npy", ".npz")
HEADER = 2**16  # bytes of an NPY file's header, at most
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")  # Pillow's modes of 16 and 32 bits


def read_heatmap(path: Path) -> npt.NDArray[np.float32]:
    """Read a heatmap as (H, W) in 0..1; raise UnreadableImage with the reason if the file contains none.

    Unsigned integers of 8 and 16 bits are divided by 255 and 65535. Floats in 0..1 stay as they are. All other values
    are stretched, so that their minimum becomes 0 and their maximum 1.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "cat.npy"
    >>> np.save(file, np.array([[-1.0, 0.0, 3.0]]))
    >>> read_heatmap(file).tolist()
    [[0.0, 0.25, 1.0]]
    """
    with errors_of(str(path)):
        if not path.is_file():
            raise FileNotFoundError
        return to_shares(_read_png(path) if path.suffix.lower() == ".png" else _read_numpy(path))


def to_shares(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Convert the values of a heatmap to (H, W) in 0..1; sides of length 1 before H and after W are removed.

    >>> to_shares(np.array([[[0, 51, 255]]], np.uint8)).tolist()
    [[0.0, 0.20000000298023224, 1.0]]
    """
    shape = values.shape
    while values.ndim > 2 and 1 in (values.shape[0], values.shape[-1]):
        values = values[0] if values.shape[0] == 1 else values[..., 0]
    if values.ndim != 2:
        raise ValueError(f"the array has the shape {shape}; a map is (H, W)")
    if values.size == 0:
        raise ValueError("it has no pixels")
    height, width = values.shape
    check_size(width, height, MAX_PIXELS)
    if values.dtype.kind == "b":
        return np.asarray(values, np.float32)
    if values.dtype.kind == "u" and values.dtype.itemsize <= 2:
        return np.asarray(values / np.float32(np.iinfo(values.dtype).max), np.float32)
    if values.dtype.kind not in "iuf":
        raise ValueError(f"the array has the type {values.dtype}")
    if not np.isfinite(values).all():
        raise ValueError("it contains NaN or Inf")
    inside = values.dtype.kind == "f" and values.min() >= 0 and values.max() <= 1
    return np.asarray(values if inside else min_max(values), np.float32)


def _read_png(path: Path) -> npt.NDArray[Any]:
    with PIL.Image.open(path, formats=("PNG",)) as image:
        check_size(*image.size, MAX_PIXELS)
        if image.mode in DEEP:
            return np.asarray(image).astype(np.uint16)  # PNG has no more than 16 bits
        if image.mode in ("1", "L"):
            return np.asarray(image)
        colours = np.asarray(image.convert("RGB"))
    if (colours != colours[..., :1]).any():
        raise ValueError("it is a picture in colour; a map has one channel")
    return colours[..., 0]


def _read_numpy(path: Path) -> npt.NDArray[Any]:
    if path.suffix.lower() == ".npy":
        with open(path, "rb") as file:
            return _read_array(file)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise ValueError(f"it contains {len(members)} arrays; a map is one array")
        with archive.open(members[0]) as member:
            return _read_array(member)


def _read_array(file: IO[bytes]) -> npt.NDArray[Any]:
    """Read an NPY file; its header is checked before memory is allocated, and the file may have what it declares."""
    start = io.BytesIO(file.read(HEADER))
    version = np.lib.format.read_magic(start)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, kind = read_header(start)
    if kind.hasobject:
        raise ValueError("it contains pickled objects, which are not loaded")
    if kind.itemsize > 16 or kind.fields is not None:
        raise ValueError(f"the array has the type {kind}")
    count = int(np.prod([int(side) for side in shape], dtype=object))
    if not 0 <= count <= MAX_PIXELS:
        raise ValueError(f"the array has the shape {shape}; a map is (H, W)")
    content = start.read(count * kind.itemsize)
    content += file.read(count * kind.itemsize - len(content))
    if len(content) < count * kind.itemsize:
        raise ValueError("the file is incomplete")
    return np.frombuffer(content, kind, count).reshape(shape, order="F" if fortran else "C")
