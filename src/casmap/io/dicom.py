"""Read DICOM files through their window, and write masks as DICOM with the geometry of the medical image.

Needs pydicom, the extra `dicom`.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from casmap.io.size_limits import check_size

if TYPE_CHECKING:  # each photo is tested for DICOM by a process that starts faster without NumPy
    import numpy as np
    import numpy.typing as npt

    from casmap.io.arrays import Window

SUFFIX = ".dcm"
MASK = "casmap mask"
TRANSFER_SYNTAX = 0x00020010
FRAMES = "1.2.840.10008.1.2.8.1"  # Deflated Image Frame Compression
# Attributes that describe the pixels of the medical image and do not hold for the mask.
PIXEL_ATTRIBUTES = (
    "WindowCenter", "WindowWidth", "RescaleSlope", "RescaleIntercept", "RescaleType", "VOILUTSequence",
    "NumberOfFrames", "PlanarConfiguration", "SmallestImagePixelValue", "LargestImagePixelValue", "PixelPaddingValue",
)  # fmt: skip


def is_dicom(source: Path | io.BytesIO) -> bool:
    """Return whether a file, or its content, is DICOM: "DICM" after the preamble, whatever its name.

    >>> is_dicom(io.BytesIO(bytes(128) + b"DICM")), is_dicom(io.BytesIO(b"GIF89a")), is_dicom(Path("missing"))
    (True, False, False)
    """
    if isinstance(source, io.BytesIO):
        return source.getvalue()[128:132] == b"DICM"
    if not source.is_file():
        return False
    with open(source, "rb") as file:
        return file.read(132)[128:] == b"DICM"


def check_not_deflated(source: Path | io.BytesIO) -> None:
    """Raise ValueError for a deflated file, before anything is inflated: 2 MB can become 4 GB.

    Only the file meta information is read, which is never compressed.
    """
    from pydicom.filereader import data_element_generator
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    with open(source, "rb") if isinstance(source, Path) else io.BytesIO(source.getbuffer()) as file:
        file.seek(132)
        # Group 2 is always explicit VR, little endian.
        for element in data_element_generator(file, False, True, stop_when=lambda tag, *_: tag.group != 2):
            if element.tag == TRANSFER_SYNTAX and _text(element.value) in (DeflatedExplicitVRLittleEndian, FRAMES):
                raise ValueError("its transfer syntax is deflated, which is not supported: convert it first")


def _text(value: object) -> str:
    return value.decode("ascii", "replace").strip("\0 ") if isinstance(value, bytes) else str(value)


def dicom_size(file: Path | io.BytesIO) -> tuple[int, int]:
    """Return width and height from the file's header."""
    from pydicom import dcmread

    check_not_deflated(file)
    data = dcmread(file, stop_before_pixels=True)
    return int(data.get("Columns", 0)), int(data.get("Rows", 0))


def open_dicom(source: Path | io.BytesIO, max_pixels: int, window: "Window | None" = None) -> "npt.NDArray[np.uint8]":
    """Return the first frame of a file in 8 bits: grey (H, W) or RGB (H, W, 3).

    Grey values are rescaled and windowed as the file specifies; window: centre and width to use instead of the file's.
    max_pixels: raise ExceedsLimit if the frame has more pixels.
    """
    import numpy as np
    from pydicom import dcmread
    from pydicom.pixels.processing import apply_color_lut, apply_rescale, apply_voi
    from pydicom.pixels.utils import pixel_array

    from casmap.io.arrays import apply_window, stretch_to_uint8

    check_not_deflated(source)
    data = dcmread(source)
    width, height = int(data.get("Columns", 0)), int(data.get("Rows", 0))
    if width * height == 0:
        raise ValueError("it has no image")
    check_size(width, height, max_pixels)
    frame = pixel_array(data, index=0)
    kind = str(data.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        frame = apply_color_lut(frame, data)
    if frame.ndim == 3:
        return np.asarray(frame if frame.dtype == np.uint8 else frame >> (8 * frame.itemsize - 8), np.uint8)
    levels = apply_rescale(frame, data)
    if window is None and "WindowCenter" in data and "WindowWidth" in data:
        # A file may list several windows: use the first.
        window = float(np.ravel(data.WindowCenter)[0]), float(np.ravel(data.WindowWidth)[0])
    if window is None and "VOILUTSequence" in data:
        levels = apply_voi(levels, data)
    grey = stretch_to_uint8(levels) if window is None else apply_window(levels, window)
    return 255 - grey if kind == "MONOCHROME1" else grey


def write_dicom_mask(photo: Path, mask: "npt.NDArray[np.float32]", out: Path) -> None:
    """Write a mask (H, W) as DICOM with the position, spacing and patient of its medical image `photo`."""
    import numpy as np
    from pydicom import dcmread
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    from casmap.io.atomic import whole_file

    data = dcmread(photo, stop_before_pixels=True)
    for key in PIXEL_ATTRIBUTES:
        if key in data:
            del data[key]
    data.Rows, data.Columns = mask.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit, data.PixelRepresentation = 7, 0
    data.ImageType = ["DERIVED", "SECONDARY"]
    data.SeriesDescription = MASK
    data.SeriesInstanceUID, data.SOPInstanceUID = generate_uid(), generate_uid()
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    pixels = np.rint(255 * mask).astype(np.uint8).tobytes()
    data.PixelData = pixels + b"\0" * (len(pixels) % 2)
    data["PixelData"].VR = "OB"
    with whole_file(out) as temporary:
        data.save_as(temporary, enforce_file_format=True)
