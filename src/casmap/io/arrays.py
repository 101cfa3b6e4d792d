"""Photos that are in memory already: arrays, tensors and grey values of any depth, as 8-bit pictures."""

from typing import Any

import numpy as np
import numpy.typing as npt

Window = tuple[float, float]  # centre and width, in the units of the picture
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
        if array.ndim == 2:
            return stretched(array)
        return (array // 257 if array.max() > 255 else array).astype(np.uint8)  # colour has a known white
    if array.dtype.kind not in "iuf":
        raise ValueError(f"an array of {array.dtype} is no photo")
    if not (array.min() >= 0 and array.max() <= 255):  # put so that NaN fails too
        raise ValueError("its values lie outside of 0..255")
    whole = array.dtype.kind == "f" and array.max() <= 1
    return np.asarray(np.rint(array * 255 if whole else array), np.uint8)


def stretched(levels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Spread them from black to white, where nothing says what they are.

    The type does not say where white is: a camera's 12 bits in a 16-bit file would come out black if 65535 were, and
    Pillow's own conversion clips everything above 255.

    >>> stretched(np.array([-5, 0, 5])).tolist()
    [0, 128, 255]
    """
    above = np.nan_to_num(levels.astype(np.float64))
    above -= above.min()
    return np.asarray(np.rint(above * (255 / (above.max() or 1))), np.uint8)


def min_max(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(v - min v) / (max v - min v), and zeros where all values are the same.

    >>> min_max(np.array([1, 2, 5])).tolist(), min_max(np.array([3, 3])).tolist()
    ([0.0, 0.25, 1.0], [0.0, 0.0])
    """
    above = np.asarray(values, np.float64) - values.min()
    return np.asarray(above / (above.max() or 1.0))


def through(levels: npt.NDArray[Any], window: Window) -> npt.NDArray[np.uint8]:
    """See them through a window, as radiologists do: DICOM PS3.3, C.11.2.1.2.1.

    y = (x - (c - 0.5)) / (w - 1) + 0.5, cut off below 0 and above 1

    >>> through(np.array([-100, 39.5, 40, 200]), (40, 81)).tolist()
    [0, 128, 129, 255]
    """
    centre, width = window
    shares = np.clip((levels - (centre - 0.5)) / max(width - 1, 1e-6) + 0.5, 0, 1)
    return np.asarray(np.rint(255 * shares), np.uint8)
