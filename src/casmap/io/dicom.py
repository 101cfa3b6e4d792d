"""DICOM: pictures of hospitals, seen through their window, and masks with the same place in the body.

Needs pydicom, the extra `dicom`.
"""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from casmap.io.arrays import Window, stretched, through
from casmap.io.atomic import whole_file

SUFFIX = ".dcm"
MASK = "casmap mask"
# What is said of the picture's pixels and is not true of the mask's.
OF_PIXELS = (
    "WindowCenter", "WindowWidth", "RescaleSlope", "RescaleIntercept", "RescaleType", "VOILUTSequence",
    "NumberOfFrames", "PlanarConfiguration", "SmallestImagePixelValue", "LargestImagePixelValue", "PixelPaddingValue",
)  # fmt: skip


def is_dicom(source: Path | io.BytesIO) -> bool:
    """Whether a file, or its bytes, is DICOM: by the four letters after its preamble, whatever its name.

    >>> is_dicom(io.BytesIO(bytes(128) + b"DICM")), is_dicom(io.BytesIO(b"GIF89a")), is_dicom(Path("missing"))
    (True, False, False)
    """
    if isinstance(source, io.BytesIO):
        return source.getvalue()[128:132] == b"DICM"
    if not source.is_file():
        return False
    with open(source, "rb") as file:
        return file.read(132)[128:] == b"DICM"


def dicom_size(file: Path | io.BytesIO) -> tuple[int, int]:
    """Width and height, from the head of a file."""
    from pydicom import dcmread

    data = dcmread(file, stop_before_pixels=True)
    return int(data.get("Columns", 0)), int(data.get("Rows", 0))


def open_dicom(source: Path | io.BytesIO, most: int, window: Window | None = None) -> npt.NDArray[np.uint8]:
    """The first frame of a file as (H, W) grey or (H, W, 3) colours, in 8 bits.

    Grey values pass through the file's own rescaling and window; window: another one, as radiologists set it. most:
    pixels, above which the file is not read.
    """
    from pydicom import dcmread
    from pydicom.pixels.processing import apply_color_lut, apply_rescale, apply_voi
    from pydicom.pixels.utils import pixel_array

    data = dcmread(source)
    pixels = int(data.get("Rows", 0)) * int(data.get("Columns", 0))
    if not 0 < pixels <= most:
        raise ValueError(f"it has more than {most // 10**6} million pixels" if pixels else "it holds no picture")
    frame = pixel_array(data, index=0)
    kind = str(data.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        frame = apply_color_lut(frame, data)
    if frame.ndim == 3:
        return np.asarray(frame if frame.dtype == np.uint8 else frame >> (8 * frame.itemsize - 8), np.uint8)
    levels = apply_rescale(frame, data)
    if window is None and "WindowCenter" in data and "WindowWidth" in data:
        # Of the windows that a file offers, the first.
        window = float(np.ravel(data.WindowCenter)[0]), float(np.ravel(data.WindowWidth)[0])
    if window is None and "VOILUTSequence" in data:
        levels = apply_voi(levels, data)
    grey = stretched(levels) if window is None else through(levels, window)
    return 255 - grey if kind == "MONOCHROME1" else grey


def write_dicom_mask(photo: Path, mask: npt.NDArray[np.float32], out: Path) -> None:
    """Write a mask (H, W) as DICOM with the place, spacing and patient of the picture that it belongs to."""
    from pydicom import dcmread
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    data = dcmread(photo, stop_before_pixels=True)
    for key in OF_PIXELS:
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
    with whole_file(out) as aside:
        data.save_as(aside, enforce_file_format=True)
