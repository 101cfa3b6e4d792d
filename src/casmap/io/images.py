"""Open photos from files, bytes, Pillow images, arrays and tensors as RGB arrays, and encode arrays as PNG and JPEG."""

import contextlib
import io
import os
import re
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps

from casmap.errors import InvalidImage, TooLarge, UnreadableImage
from casmap.install_hint import install_hint
from casmap.io import dicom, heic
from casmap.io.arrays import ACCEPTED, Window, as_array, is_tensor, stretch_to_uint8, to_uint8
from casmap.io.size_limits import MAX_PIXELS, ExceedsLimit, check_size, too_many

Image = npt.NDArray[np.uint8]

# A list, because not all of Pillow's formats are safe to open: for EPS it runs Ghostscript.
FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"), "PNG": (".png", ".apng"), "GIF": (".gif",), "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"), "TIFF": (".tif", ".tiff"), "WEBP": (".webp",),
    "JPEG2000": (".jp2", ".j2k"), "AVIF": (".avif",),
}  # fmt: skip
EXTRA_FORMATS = {"heic": ("HEIC", "pillow-heif"), "dicom": ("DICOM", "pydicom")}  # by extra: format and package
HEIC_SUFFIXES = heic.SUFFIXES if find_spec("pillow_heif") else ()  # otherwise unsupported, as raw files are
IMAGE_SUFFIXES = frozenset((dicom.SUFFIX, *HEIC_SUFFIXES, *chain.from_iterable(FORMATS.values())))

JPEG_QUALITY = 90
ORIENTATION, SWAPPED = 0x0112, (5, 6, 7, 8)  # an EXIF tag, and its values that exchange width and height

Source = str | os.PathLike[str] | bytes | IO[bytes] | PIL.Image.Image | npt.NDArray[Any]


class NotAnImage(TypeError):  # noqa: N818 (named like the classes of casmap.errors)
    """A source of a type that cannot hold a photo."""


class NoContent(ValueError):  # noqa: N818 (likewise)
    """An empty file, or a URL instead of a file; the text completes the sentence "FILE is ..."."""


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
    name = name or path_of(source) or "The given image"
    most = MAX_PIXELS if max_pixels is None else min(max_pixels, MAX_PIXELS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # MAX_PIXELS decides, not a warning
            if isinstance(source, PIL.Image.Image):
                return _upright_rgb(source, most)
            if in_memory:
                return _upright_rgb(PIL.Image.fromarray(to_uint8(as_array(source))), most)
            file = _seekable(source)
            if dicom.is_dicom(file):
                return _upright_rgb(PIL.Image.fromarray(dicom.open_dicom(file, most, window)), most)
            with _open_lazily(file) as image:
                return _upright_rgb(image, most, least)
    except Exception as error:  # for damaged files, decoders raise OSError, SyntaxError, struct.error and others
        invalid = in_memory or isinstance(error, NotAnImage)
        large = isinstance(error, ExceedsLimit | PIL.Image.DecompressionBombError)
        kind = InvalidImage if invalid else TooLarge if large else UnreadableImage
        raise kind(f"{name} {_reason(error, invalid)}.") from error


def unusable(source: Source, error: Exception) -> UnreadableImage:
    """Return the error of a photo whose processing has failed in an unexpected way.

    >>> unusable("cat.jpg", MemoryError())
    UnreadableImage('cat.jpg cannot be processed: MemoryError.')
    """
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UnreadableImage(f"{path_of(source) or 'The given image'} cannot be processed: {reason}.")


def image_size(source: Path | bytes) -> tuple[int, int] | None:
    """Return width and height of the photo as `open_image` opens it, from the file's header; None if it cannot.

    >>> image_size(Path("missing.jpg")), image_size(encode_png(np.zeros((2, 3), np.uint8)))
    (None, (3, 2))
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            file = _seekable(source)
            if dicom.is_dicom(file):
                width, height = dicom.dicom_size(file)
            else:
                with _open_lazily(file) as image:
                    width, height = image.size
                    with contextlib.suppress(Exception):  # damaged EXIF data rotate nothing
                        width, height = (height, width) if image.getexif().get(ORIENTATION) in SWAPPED else image.size
            check_size(width, height, MAX_PIXELS)
            return (width, height) if width * height else None
    except Exception:
        return None


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


def is_url(source: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL, even if `Path` has removed one of its slashes.

    >>> is_url("https://example.com/cat.jpg"), is_url(Path("http://example.com")), is_url("photos/cat.jpg")
    (True, True, False)
    """
    return re.match("(https?|ftp|s3|gs):/", os.fspath(source), re.IGNORECASE) is not None


def _seekable(source: Any) -> Path | io.BytesIO:
    """Return a regular file, or the content of one in memory: at a pipe, Pillow would wait forever."""
    if isinstance(source, bytes | bytearray | memoryview) or hasattr(source, "read"):
        content = source.read() if hasattr(source, "read") else bytes(source)
        if not isinstance(content, bytes):
            raise NotAnImage("it is a text file: open it in binary mode")
        if not content:
            raise NoContent("empty: 0 bytes")
        return io.BytesIO(content)
    if not isinstance(source, str | os.PathLike):
        raise NotAnImage(f"it is of type {type(source).__name__}")
    if is_url(source):
        raise NoContent("a URL: download the file first")
    path = Path(source)
    if path.exists() and not path.is_file():
        raise IsADirectoryError(path)
    if path.exists() and path.stat().st_size == 0:
        raise NoContent("empty: 0 bytes")
    return path


def _open_lazily(file: Path | io.BytesIO) -> PIL.Image.Image:
    """Read the header of a file that is not DICOM; the pixels are decoded later."""
    return heic.open_heic(file) if heic.is_heic(file) else PIL.Image.open(file, formats=tuple(FORMATS))


def _upright_rgb(image: PIL.Image.Image, max_pixels: int, least: int | None = None) -> Opened:
    """Check the size in the header; then decode a Pillow image, rotate it and convert it to RGB."""
    width, height = image.size
    if width * height == 0:
        raise ValueError("it has no pixels")
    check_size(width, height, max_pixels)
    with contextlib.suppress(Exception):
        width, height = (height, width) if image.getexif().get(ORIENTATION) in SWAPPED else image.size
    if least is not None and image.format == "JPEG":  # for HEIC, pillow-heif would use the embedded thumbnail
        image.draft(None, (least, least))
    image.load()  # damaged pixels raise here; damaged EXIF data are ignored below
    with contextlib.suppress(Exception):
        image = PIL.ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        image = PIL.Image.fromarray(stretch_to_uint8(np.asarray(image)))
    elif image.has_transparency_data:
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return Opened(np.array(image.convert("RGB")), width, height)


def _reason(error: Exception, invalid: bool) -> str:
    """Return the part of the error message that follows the photo's name."""
    reasons = {
        NoContent: f"is {error}",
        FileNotFoundError: "does not exist",
        IsADirectoryError: "is a folder or a device, not an image file",
        PermissionError: "cannot be read: permission denied",
        PIL.UnidentifiedImageError: f"is not an image in a supported format ({', '.join(FORMATS)})",
        PIL.Image.DecompressionBombError: f"has {too_many(MAX_PIXELS)}",
        ExceedsLimit: f"has {error}",
        MemoryError: "needs more memory than a photo may use",
    }
    if isinstance(error, ModuleNotFoundError):
        extra = "heic" if "heif" in str(error.name) else "dicom"
        kind, package = EXTRA_FORMATS[extra]
        return f"is a {kind} file, which needs {package}: {install_hint(extra)}"
    for error_type, text in reasons.items():
        if isinstance(error, error_type):
            return text
    reason = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
    if invalid:
        return f"cannot be used: {reason}; a photo is a path, bytes, an open binary file, a Pillow image, {ACCEPTED}"
    return f"cannot be opened: {reason or type(error).__name__}"
