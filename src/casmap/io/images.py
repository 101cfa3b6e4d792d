"""Photos from anywhere: every kind of file, picture or array becomes one kind of array, or one clear sentence."""

import contextlib
import glob
import io
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps

from casmap.errors import UnreadableImage, UserError
from casmap.io import dicom
from casmap.io.levels import Window, stretched

Image = npt.NDArray[np.uint8]

# 512 MB of RGB. The largest cameras (150 megapixels) stay below; a bomb of a few kB that unpacks to more does not.
MAX_PIXELS = 512 * 2**20 // 3

# Named one by one because Pillow knows formats that are not safe to open blindly: for EPS it runs Ghostscript.
FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png", ".apng"),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "JPEG2000": (".jp2", ".j2k"),
    "AVIF": (".avif",),
}
IMAGE_SUFFIXES = frozenset(suffix for suffixes in FORMATS.values() for suffix in suffixes) | {dicom.SUFFIX}

QUALITY = 90  # of JPEGs
ORIENTATION = 0x0112  # among EXIF tags

# Photos all the same, though none that is opened: who gives a folder of them should hear it. (Raw files have the head
# of a TIFF, and Pillow would take their thumbnail for the photo.)
FOREIGN_SUFFIXES = frozenset((".heic", ".heif", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"))


def open_image(source: str | Path | bytes | PIL.Image.Image | npt.NDArray[Any], window: Window | None = None) -> Image:
    """Open a file, its bytes, a Pillow image or an array as (H, W, 3) uint8 RGB, upright as its EXIF data say.

    An animation gives its first frame. Transparent pixels are laid on white, as on a page: the colour stored under
    them was never meant to be seen. Arrays are (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of bool, uint8, uint16 or
    of floats from 0 to 1. A DICOM file, with the extra `dicom`, is seen through its own window, or through `window`:
    centre and width. Whatever cannot be opened raises UnreadableImage.

    >>> open_image(np.array([[0.0, 1.0]])).tolist()
    [[[0, 0, 0], [255, 255, 255]]]
    >>> open_image("missing.jpg")
    Traceback (most recent call last):
    casmap.errors.UnreadableImage: missing.jpg does not exist.
    """
    return _open(source, window)[0]


def open_smaller(path: Path, least: int, window: Window | None = None) -> tuple[Image, tuple[int, int]]:
    """A photo to look at, whose shorter side has at least so many pixels, and its true width and height.

    As `open_image`, but a JPEG that is twice as large, or more, is decoded at a half, a quarter or an eighth of its
    size: a camera's photo in a fifth of the time and a sixteenth of the memory.
    """
    return _open(path, window, least)


def open_bytes(content: bytes, name: str, least: int | None = None) -> Image:
    """The bytes of a file as `open_image` opens it, under a name of its own; smaller as in `open_smaller`."""
    return _open(content, None, least, name)[0]


def _open(
    source: Any, window: Window | None, least: int | None = None, name: str = ""
) -> tuple[Image, tuple[int, int]]:
    """A photo, decoded to a part of its size where it may be, and its true width and height."""
    path = source if isinstance(source, str | Path) else getattr(source, "filename", "")
    name = name or str(path) or "The given image"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # MAX_PIXELS decides, not a warning
            if isinstance(source, np.ndarray):
                return _upright_rgb(PIL.Image.fromarray(_eight_bits(source)))
            if isinstance(source, PIL.Image.Image):
                return _upright_rgb(source)
            readable = _readable(source)
            if dicom.is_dicom(readable):
                return _upright_rgb(PIL.Image.fromarray(dicom.open_dicom(readable, MAX_PIXELS, window)))
            with PIL.Image.open(readable, formats=tuple(FORMATS)) as image:
                return _upright_rgb(image, least)
    except Exception as error:  # on broken files decoders raise OSError, SyntaxError, struct.error, and what not
        raise UnreadableImage(f"{name} {_reason(error)}.") from error


def size_of_bytes(content: bytes) -> tuple[int, int] | None:
    """As `image_size`, for the bytes of a file.

    >>> size_of_bytes(encode_png(np.zeros((2, 3), np.uint8))), size_of_bytes(b"no picture")
    ((3, 2), None)
    """
    return image_size(io.BytesIO(content))


def image_size(path: Path | io.BytesIO) -> tuple[int, int] | None:
    """Width and height of the picture that `open_image` would give, from the file's head; None where it would fail.

    >>> image_size(Path("missing.jpg")) is None
    True
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            if dicom.is_dicom(path):
                width, height = dicom.dicom_size(path)
                return (width, height) if 0 < width * height <= MAX_PIXELS else None
            readable = path if isinstance(path, io.BytesIO) else _readable(path)
            with PIL.Image.open(readable, formats=tuple(FORMATS)) as image:
                width, height = image.size
                if not 0 < width * height <= MAX_PIXELS:
                    return None
                return (height, width) if _lies(image) else (width, height)
    except Exception:
        return None


def find_images(sources: Iterable[str | Path], left_out: list[str] | None = None) -> list[Path]:
    """List the images that files, folders and glob patterns name: in the order given, each once.

    A named file is taken whatever its suffix. Folders are searched to the bottom, and folders and patterns give their
    visible files with a suffix of a photo, sorted. A source that gives nothing raises UserError. Links that lead out
    of a folder are not followed: `left_out` gets a sentence for each.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in "b.jpg", "a.png", "notes.txt":
    ...     (folder / name).touch()
    >>> [path.name for path in find_images([folder / "b.jpg", folder])]
    ['b.jpg', 'a.png']
    """
    found: dict[str, Path] = {}
    for source in sources:
        for path in _images_of(Path(source), [] if left_out is None else left_out):
            found.setdefault(os.path.abspath(path), path)
    return list(found.values())


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path in a folder is a link to something outside of it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "in.jpg").symlink_to(folder / "a.jpg"), (folder / "out.jpg").symlink_to("/b.jpg")
    (None, None)
    >>> [leads_out(folder / name, folder) for name in ("a.jpg", "in.jpg", "out.jpg")]
    [False, False, True]
    """
    return path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())


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


def _readable(source: str | Path | bytes) -> Path | io.BytesIO:
    """What Pillow can read without waiting for ever, as it would at a pipe."""
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if not isinstance(source, str | Path):
        raise TypeError(f"it is a {type(source).__name__}, not a file, bytes, a Pillow image or an array")
    path = Path(source)
    if path.exists() and not path.is_file():
        raise IsADirectoryError(path)
    return path


def _lies(image: PIL.Image.Image) -> bool:
    """Whether a photo's EXIF data say that its sides change places."""
    with contextlib.suppress(Exception):
        return image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
    return False


def _upright_rgb(image: PIL.Image.Image, least: int | None = None) -> tuple[Image, tuple[int, int]]:
    """Decode, turn and colour a Pillow image, once its header says that it has a sane size, which is told, too."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise PIL.Image.DecompressionBombError
    if width * height == 0:
        raise ValueError("it has no pixels")
    lies = _lies(image)
    if least is not None:
        image.draft(None, (least, least))  # for JPEG; other formats have no such way
    image.load()  # broken pixels fail here, which leaves only broken EXIF data to fail below: good pixels go on
    with contextlib.suppress(Exception):
        image = PIL.ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        image = PIL.Image.fromarray(stretched(np.asarray(image)))
    elif image.has_transparency_data:
        white = PIL.Image.new("RGBA", image.size, "white")
        image = PIL.Image.alpha_composite(white, image.convert("RGBA"))
    return np.array(image.convert("RGB")), (height, width) if lies else (width, height)


def _eight_bits(array: npt.NDArray[Any]) -> Image:
    """Bring an array of one of the accepted shapes and types to 8 bits: (H, W), (H, W, 3) or (H, W, 4)."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim != 2 and (array.ndim != 3 or array.shape[2] not in (3, 4)):
        raise ValueError(f"an array of shape {array.shape} is not (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)")
    if array.size == 0:
        raise ValueError("it has no pixels")
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    if array.dtype == np.bool_:
        return np.where(array, np.uint8(255), np.uint8(0))
    if array.dtype == np.uint16:
        return stretched(array) if array.ndim == 2 else (array // 257).astype(np.uint8)  # colour has a known white
    if np.issubdtype(array.dtype, np.floating):
        if not (array.min() >= 0 and array.max() <= 1):  # put so that NaN fails too
            raise ValueError("an array of floats must lie between 0 and 1")
        return np.asarray(np.rint(array * 255), np.uint8)
    raise ValueError(f"an array of {array.dtype} is not one of bool, uint8, uint16 or floats from 0 to 1")


def _reason(error: Exception) -> str:
    """The rest of a sentence that begins with the image's name."""
    match error:
        case FileNotFoundError():
            return "does not exist"
        case ModuleNotFoundError():
            return "is DICOM, which needs pydicom: pip install 'casmap[dicom]'"
        case IsADirectoryError():
            return "is a folder or a device, not an image file"
        case PermissionError():
            return "may not be read: permission denied"
        case PIL.UnidentifiedImageError():
            return f"is not an image of a kind that can be opened ({', '.join(FORMATS)})"
        case PIL.Image.DecompressionBombError():
            return f"has more than {MAX_PIXELS // 10**6} million pixels, which is the limit"
    said = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
    return f"cannot be opened: {said or type(error).__name__}"


def _images_of(source: Path, left_out: list[str]) -> list[Path]:
    """The images that one source names: at least one."""
    try:
        if source.is_dir():
            inside = [path for path in source.rglob("*") if not _hidden(path.relative_to(source))]
            missing = f"There is no image in the folder {source}."
        elif source.exists():
            return [source]
        else:
            inside = [Path(path) for path in glob.glob(str(source), recursive=True)]
            missing = f"{source} does not exist, and no image matches it as a pattern."
        suffixes = IMAGE_SUFFIXES | FOREIGN_SUFFIXES
        images = [path for path in inside if path.suffix.lower() in suffixes and path.is_file()]
        if source.is_dir():
            out = {path for path in inside if leads_out(path, source)}
            left_out += [f"{path} is a link that leads out of {source}." for path in sorted(out)]
            images = [path for path in images if path not in out]
            missing += f" {len(out)} links lead out of it, and are not followed." * bool(out)
    except OSError as error:
        raise UserError(f"Cannot look at {source}: {error.strerror}.") from error
    if not images:
        raise UserError(missing)
    return sorted(images)


def _hidden(path: Path) -> bool:
    """Whether a file or a folder above it is hidden: thumbnails and the `._` twins of macOS are nobody's photos."""
    return any(part.startswith(".") for part in path.parts)
