"""Open photos from files, bytes, Pillow images, arrays and tensors as RGB arrays, and encode arrays as PNG and JPEG."""

import os
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from casmap.errors import UnreadableImage
from casmap.io.arrays import Window, as_array, is_tensor, to_uint8
from casmap.io.decoding import decode, errors_of
from casmap.io.size_limits import MAX_PIXELS

JPEG_QUALITY = 90

Image = npt.NDArray[np.uint8]
Source = str | os.PathLike[str] | bytes | IO[bytes] | PIL.Image.Image | npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Opened:
    """A photo (H, W, 3), possibly decoded at a fraction of its size, and its full width and height, upright."""

    image: Image
    width: int
    height: int


def path_of(source: Any) -> str:
    """Return the path of a photo if its source is a path, an open file or a Pillow image of a file, else "".

    >>> path_of("trip/cat.jpg"), path_of(b"...")
    ('trip/cat.jpg', '')
    """
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    found = getattr(source, "filename", None) or getattr(source, "name", None)
    return found if isinstance(found, str) else ""


def open_image(source: Source, window: Window | None = None) -> Image:
    """Open a photo as (H, W, 3) uint8 RGB, rotated upright by its EXIF data.

    source: a path, the bytes of a file, an open binary file, a Pillow image, an array (H, W), (H, W, 1), (H, W, 3) or
    (H, W, 4), or a torch tensor (3, H, W); values in 0..1 or 0..255. An animation gives its first frame. Transparent
    pixels become white. HEIC files need the extra `heic`. DICOM files need the extra `dicom`; their grey values are
    mapped by the file's own window or by `window`, its centre and width. Raises UnreadableImage, an OSError, if the
    file cannot be opened, and InvalidImage, also a ValueError, if the source is not a photo.

    >>> open_image(np.array([[0.0, 1.0]])).tolist()
    [[[0, 0, 0], [255, 255, 255]]]
    >>> open_image("missing.jpg")
    Traceback (most recent call last):
    casmap.errors.UnreadableImage: missing.jpg does not exist.
    """
    return open_photo(source, window=window).image


def open_photo(
    source: Source, *, window: Window | None = None, least: int | None = None, name: str = "",
    max_pixels: int | None = None,
) -> Opened:  # fmt: skip
    """Open a photo as `open_image` does, and also return its full size.

    least: decode a JPEG at 1/2, 1/4 or 1/8 of its size while its shorter side stays at least this long, which takes a
    fifth of the time for a camera's photo. name: the photo's name in error messages. max_pixels: of the full size
    (default: MAX_PIXELS); a larger photo raises TooLarge.

    >>> opened = open_photo(np.zeros((2, 3), np.uint8))
    >>> opened.image.shape, opened.width, opened.height
    ((2, 3, 3), 3, 2)
    """
    in_memory = isinstance(source, np.ndarray) or (not isinstance(source, str | os.PathLike) and is_tensor(source))
    most = MAX_PIXELS if max_pixels is None else min(max_pixels, MAX_PIXELS)
    with errors_of(name or path_of(source) or "The given image", in_memory):
        photo = PIL.Image.fromarray(to_uint8(as_array(source))) if in_memory else source
        found = decode(photo, window=window, least=least, max_pixels=most)
        return Opened(np.array(found.image), found.width, found.height)


def unusable(source: Source, error: Exception) -> UnreadableImage:
    """Return the error of a photo whose processing has failed in an unexpected way.

    >>> unusable("cat.jpg", MemoryError())
    UnreadableImage('cat.jpg cannot be processed: MemoryError.')
    """
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UnreadableImage(f"{path_of(source) or 'The given image'} cannot be processed: {reason}.")


def encode_png(image: Image) -> bytes:
    """Encode a (H, W) grey, (H, W, 3) RGB or (H, W, 4) RGBA image as the bytes of a PNG file.

    >>> open_image(encode_png(np.full((2, 3), 7, np.uint8))).shape
    (2, 3, 3)
    """
    import cv2  # here, because the processes that only open photos start faster without it

    bgr = image if image.ndim == 2 else image[..., [2, 1, 0, 3][: image.shape[2]]]
    # Four times as fast as Pillow. For masks, this strategy takes less time and fewer bytes than the others.
    strategy = [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE] if image.ndim == 2 else []
    return cv2.imencode(".png", bgr, strategy)[1].tobytes()


def encode_jpeg(image: Image) -> bytes:
    """Encode a (H, W, 3) RGB image as the bytes of a JPEG file, for viewing.

    >>> open_image(encode_jpeg(np.full((2, 3, 3), 7, np.uint8))).shape
    (2, 3, 3)
    """
    import cv2

    return cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()
