"""Photos from anywhere: every kind of file, picture or array becomes one kind of array, or one clear sentence."""

import contextlib
import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps

from casmap.errors import InvalidImage, UnreadableImage
from casmap.install_hint import install_hint
from casmap.io import dicom
from casmap.io.arrays import ACCEPTED, Window, as_array, eight_bits, is_tensor, stretched

Image = npt.NDArray[np.uint8]

# 512 MB of RGB. The largest cameras (150 megapixels) stay below; a bomb of a few kB that unpacks to more does not.
MAX_PIXELS = 512 * 2**20 // 3

# Named one by one because Pillow knows formats that are not safe to open blindly: for EPS it runs Ghostscript.
FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"), "PNG": (".png", ".apng"), "GIF": (".gif",), "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"), "TIFF": (".tif", ".tiff"), "WEBP": (".webp",),
    "JPEG2000": (".jp2", ".j2k"), "AVIF": (".avif",),
}  # fmt: skip
IMAGE_SUFFIXES = frozenset(suffix for suffixes in FORMATS.values() for suffix in suffixes) | {dicom.SUFFIX}

QUALITY = 90  # of JPEGs
ORIENTATION, LYING = 0x0112, (5, 6, 7, 8)  # among EXIF tags, and where a photo's sides change places

Source = str | os.PathLike[str] | bytes | IO[bytes] | PIL.Image.Image | npt.NDArray[Any]


class NotAnImage(TypeError):  # noqa: N818 (it is what it says)
    """A source of a kind that holds no photo."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A photo (H, W, 3), perhaps decoded at a part of its size, and its true width and height, upright."""

    image: Image
    width: int
    height: int


def path_of(source: Any) -> str:
    """The path of a photo, as far as its source knows one: a path itself, an open file, or a Pillow image of a file.

    >>> path_of("trip/cat.jpg"), path_of(b"...")
    ('trip/cat.jpg', '')
    """
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    found = getattr(source, "filename", None) or getattr(source, "name", None)
    return found if isinstance(found, str) else ""


def open_image(source: Source, window: Window | None = None) -> Image:
    """Open a photo as (H, W, 3) uint8 RGB, upright as its EXIF data say.

    source: a path, the bytes of a file, an open binary file, a Pillow image, an array (H, W), (H, W, 1), (H, W, 3) or
    (H, W, 4), or a torch tensor (3, H, W); numbers in 0..1 or 0..255. An animation gives its first frame. Transparent
    pixels are laid on white: the colour stored under them was never meant to be seen. A DICOM file, with the extra
    `dicom`, is seen through its own window, or through `window`: centre and width. What cannot be opened raises
    UnreadableImage, an OSError; what is no photo raises InvalidImage, which is a ValueError, too.

    >>> open_image(np.array([[0.0, 1.0]])).tolist()
    [[[0, 0, 0], [255, 255, 255]]]
    >>> open_image("missing.jpg")
    Traceback (most recent call last):
    casmap.errors.UnreadableImage: missing.jpg does not exist.
    """
    return open_photo(source, window=window).image


def open_photo(source: Source, *, window: Window | None = None, least: int | None = None, name: str = "") -> Opened:
    """Open a photo as `open_image` does, with its true size.

    least: where a smaller photo will do, a JPEG is decoded at a half, a quarter or an eighth of its size, its shorter
    side no less than this: a camera's photo in a fifth of the time. name: what an error calls it.
    """
    in_memory = isinstance(source, np.ndarray) or (not isinstance(source, str | os.PathLike) and is_tensor(source))
    name = name or path_of(source) or "The given image"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # MAX_PIXELS decides, not a warning
            if isinstance(source, PIL.Image.Image):
                return _upright_rgb(source)
            if in_memory:
                return _upright_rgb(PIL.Image.fromarray(eight_bits(as_array(source))))
            readable = _readable(source)
            if dicom.is_dicom(readable):
                return _upright_rgb(PIL.Image.fromarray(dicom.open_dicom(readable, MAX_PIXELS, window)))
            with PIL.Image.open(readable, formats=tuple(FORMATS)) as image:
                return _upright_rgb(image, least)
    except Exception as error:  # on broken files decoders raise OSError, SyntaxError, struct.error, and what not
        invalid = in_memory or isinstance(error, NotAnImage)
        raise (InvalidImage if invalid else UnreadableImage)(f"{name} {_reason(error, invalid)}.") from error


def image_size(source: Path | bytes) -> tuple[int, int] | None:
    """Width and height of the picture that `open_image` would give, from the file's head; None where it would fail.

    >>> image_size(Path("missing.jpg")), image_size(encode_png(np.zeros((2, 3), np.uint8)))
    (None, (3, 2))
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            readable = _readable(source)
            if dicom.is_dicom(readable):
                width, height = dicom.dicom_size(readable)
            else:
                with PIL.Image.open(readable, formats=tuple(FORMATS)) as image:
                    width, height = image.size
                    with contextlib.suppress(Exception):  # broken EXIF data turn nothing
                        width, height = (height, width) if image.getexif().get(ORIENTATION) in LYING else image.size
            return (width, height) if 0 < width * height <= MAX_PIXELS else None
    except Exception:
        return None


def encode_png(image: Image) -> bytes:
    """Encode a (H, W) grey or (H, W, 3) RGB image as the bytes of a PNG file.

    >>> open_image(encode_png(np.full((2, 3), 7, np.uint8))).shape
    (2, 3, 3)
    """
    bgr = image if image.ndim == 2 else image[..., ::-1]
    return cv2.imencode(".png", bgr)[1].tobytes()  # takes a quarter of the time that Pillow needs


def encode_jpeg(image: Image) -> bytes:
    """Encode a (H, W, 3) RGB image as the bytes of a JPEG file, to be looked at.

    >>> open_image(encode_jpeg(np.full((2, 3, 3), 7, np.uint8))).shape
    (2, 3, 3)
    """
    return cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()


def _readable(source: Any) -> Path | io.BytesIO:
    """What Pillow can read without waiting for ever, as it would at a pipe."""
    if isinstance(source, bytes | bytearray | memoryview):
        return io.BytesIO(bytes(source))
    if hasattr(source, "read"):
        content = source.read()
        if not isinstance(content, bytes):
            raise NotAnImage("it is a text file: open it in binary mode")
        return io.BytesIO(content)
    if not isinstance(source, str | os.PathLike):
        raise NotAnImage(f"it is of type {type(source).__name__}")
    path = Path(source)
    if path.exists() and not path.is_file():
        raise IsADirectoryError(path)
    return path


def _upright_rgb(image: PIL.Image.Image, least: int | None = None) -> Opened:
    """Decode, turn and colour a Pillow image, once its header says that it has a sane size."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise PIL.Image.DecompressionBombError
    if width * height == 0:
        raise ValueError("it has no pixels")
    with contextlib.suppress(Exception):
        width, height = (height, width) if image.getexif().get(ORIENTATION) in LYING else image.size
    if least is not None:
        image.draft(None, (least, least))  # for JPEG; other formats have no such way
    image.load()  # broken pixels fail here, which leaves only broken EXIF data to fail below: good pixels go on
    with contextlib.suppress(Exception):
        image = PIL.ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        image = PIL.Image.fromarray(stretched(np.asarray(image)))
    elif image.has_transparency_data:
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return Opened(np.array(image.convert("RGB")), width, height)


def _reason(error: Exception, invalid: bool) -> str:
    """The rest of a sentence that begins with the image's name."""
    reasons = {
        FileNotFoundError: "does not exist",
        IsADirectoryError: "is a folder or a device, not an image file",
        PermissionError: "may not be read: permission denied",
        PIL.UnidentifiedImageError: f"is not an image of a kind that can be opened ({', '.join(FORMATS)})",
        PIL.Image.DecompressionBombError: f"has more than {MAX_PIXELS // 10**6} million pixels, which is the limit",
    }
    if isinstance(error, ModuleNotFoundError):
        return f"is DICOM, which needs pydicom: {install_hint('dicom')}"
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return reason
    said = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
    if invalid:
        return f"cannot be used: {said}; a photo is a path, bytes, an open binary file, a Pillow image, {ACCEPTED}"
    return f"cannot be opened: {said or type(error).__name__}"
