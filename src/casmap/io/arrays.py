"""Convert arrays and tensors of any bit depth to 8-bit images."""

from typing import Any

import numpy as np
import numpy.typing as npt

Window = tuple[float, float]  # centre and width, in the image's own units


def is_tensor(source: Any) -> bool:
    """Return whether `source` is a torch tensor, without importing torch.

    >>> is_tensor(np.zeros(3))
    False
    """
    return type(source).__module__.split(".")[0] == "torch" and hasattr(source, "detach")


def as_array(source: Any) -> npt.NDArray[Any]:
    """Return an array unchanged, and a tensor (..., C, H, W) as an array (..., H, W, C).

    >>> as_array([[1, 2]]).shape
    (1, 2)
    """
    if not is_tensor(source):
        return np.asarray(source)
    array = np.asarray(source.detach().cpu().float() if source.is_floating_point() else source.detach().cpu())
    return np.moveaxis(array, -3, -1) if array.ndim >= 3 else array


def is_batch(source: Any) -> bool:
    """Return whether `source` is an array (N, H, W, C) or a tensor (N, C, H, W) of several photos.

    >>> is_batch(np.zeros((2, 4, 4, 3))), is_batch(np.zeros((4, 4, 3)))
    (True, False)
    """
    return (isinstance(source, np.ndarray) or is_tensor(source)) and source.ndim == 4


def to_uint8(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert an array of an accepted shape and type to 8 bits: (H, W), (H, W, 3) or (H, W, 4).

    Floats may be in 0..1 or 0..255, integers in 0..255. 16-bit grey values are stretched from their minimum to their
    maximum, because their type does not define the white level.

    >>> to_uint8(np.array([[0.0, 1.0]])).tolist(), to_uint8(np.array([[0, 200]])).tolist()
    ([[0, 255]], [[0, 200]])
    """
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim != 2 and (array.ndim != 3 or array.shape[2] not in (3, 4)):
        raise ValueError(f"the array has the shape {array.shape}")
    if array.size == 0:
        raise ValueError("it has no pixels")
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    if array.dtype == np.bool_:
        return np.where(array, np.uint8(255), np.uint8(0))
    if array.dtype == np.uint16:
        if array.ndim == 2:
            return stretch_to_uint8(array)
        return (array // 257 if array.max() > 255 else array).astype(np.uint8)  # 16-bit colour: white is 65535
    if array.dtype.kind not in "iuf":
        raise ValueError(f"the array has the type {array.dtype}")
    if not (array.min() >= 0 and array.max() <= 255):  # written so that NaN fails, too
        raise ValueError("its values are outside 0..255")
    unit_range = array.dtype.kind == "f" and array.max() <= 1
    return np.asarray(np.rint(array * 255 if unit_range else array), np.uint8)


def stretch_to_uint8(levels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Scale values linearly so that their minimum becomes 0 and their maximum 255.

    For grey values of unknown range: 12-bit camera data in a 16-bit file would be almost black if 65535 were white,
    and Pillow's own conversion clips everything above 255.

    >>> stretch_to_uint8(np.array([-5, 0, 5])).tolist()
    [0, 128, 255]
    """
    above = np.nan_to_num(levels.astype(np.float64))
    above -= above.min()
    return np.asarray(np.rint(above * (255 / (above.max() or 1))), np.uint8)


def min_max(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return (v - min v) / (max v - min v), or zeros where all values are equal.

    >>> min_max(np.array([1, 2, 5])).tolist(), min_max(np.array([3, 3])).tolist()
    ([0.0, 0.25, 1.0], [0.0, 0.0])
    """
    above = np.asarray(values, np.float64) - values.min()
    return np.asarray(above / (above.max() or 1.0))


def apply_window(levels: npt.NDArray[Any], window: Window) -> npt.NDArray[np.uint8]:
    """Map grey values to 0..255 by a window, as in DICOM PS3.3, C.11.2.1.2.1.

    y = (x - (c - 0.5)) / (w - 1) + 0.5, clipped to 0..1

    >>> apply_window(np.array([-100, 39.5, 40, 200]), (40, 81)).tolist()
    [0, 128, 129, 255]
    """
    centre, width = window
    shares = np.clip((levels - (centre - 0.5)) / max(width - 1, 1e-6) + 0.5, 0, 1)
    return np.asarray(np.rint(255 * shares), np.uint8)
