"""Grey values of any depth, as the 8 bits that eyes and networks are used to."""

from typing import Any

import numpy as np
import numpy.typing as npt

Window = tuple[float, float]  # centre and width, in the units of the picture


def stretched(levels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Spread them from black to white, where nothing says what they are.

    The type does not say where white is: a camera's 12 bits in a 16-bit file would come out black if 65535 were, and
    Pillow's own conversion clips everything above 255.

    >>> stretched(np.array([-5, 0, 5])).tolist()
    [0, 128, 255]
    """
    return np.asarray(np.rint(255 * min_max(np.nan_to_num(levels.astype(np.float64)))), np.uint8)


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
