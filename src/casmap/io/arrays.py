"""Photos that are in memory already: NumPy arrays and torch tensors, as 8-bit pictures."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from casmap.io.levels import stretched

ACCEPTED = "an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or a tensor (3, H, W), in 0..1 or 0..255"


def is_tensor(source: Any) -> bool:
    """Whether a source is a torch tensor, told without importing torch.

    >>> is_tensor(np.zeros(3))
    False
    """
    return type(source).__module__.split(".")[0] == "torch" and hasattr(source, "detach")


def as_array(source: Any) -> npt.NDArray[Any]:
    """An array as it is, and a tensor (..., C, H, W) as an array (..., H, W, C)."""
    if not is_tensor(source):
        return np.asarray(source)
    array = np.asarray(source.detach().cpu().float() if source.is_floating_point() else source.detach().cpu())
    return np.moveaxis(array, -3, -1) if array.ndim >= 3 else array


def is_many(source: Any) -> bool:
    """Whether an array (N, H, W, C) or a tensor (N, C, H, W) holds several photos.

    >>> is_many(np.zeros((2, 4, 4, 3))), is_many(np.zeros((4, 4, 3)))
    (True, False)
    """
    return (isinstance(source, np.ndarray) or is_tensor(source)) and source.ndim == 4


def each_of(source: Any) -> Iterator[npt.NDArray[Any]]:
    """The photos of an array (N, H, W, C) or a tensor (N, C, H, W), one after the other."""
    yield from as_array(source)


def eight_bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Bring an array of one of the accepted shapes and types to 8 bits: (H, W), (H, W, 3) or (H, W, 4).

    Floats and integers may lie in 0..1 (floats) or 0..255; 16-bit grey values are stretched, since their type does not
    say where white is.

    >>> eight_bits(np.array([[0.0, 1.0]])).tolist(), eight_bits(np.array([[0, 200]])).tolist()
    ([[0, 255]], [[0, 200]])
    """
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim != 2 and (array.ndim != 3 or array.shape[2] not in (3, 4)):
        raise ValueError(f"an array of shape {array.shape} is no photo")
    if array.size == 0:
        raise ValueError("it has no pixels")
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    if array.dtype == np.bool_:
        return np.where(array, np.uint8(255), np.uint8(0))
    if array.dtype == np.uint16:
        return stretched(array) if array.ndim == 2 else (array // 257).astype(np.uint8)  # colour has a known white
    if array.dtype.kind not in "iuf":
        raise ValueError(f"an array of {array.dtype} is no photo")
    if not (array.min() >= 0 and array.max() <= 255):  # put so that NaN fails too
        raise ValueError("its values lie outside of 0..255")
    whole = array.dtype.kind == "f" and array.max() <= 1
    return np.asarray(np.rint(array * 255 if whole else array), np.uint8)
