"""Read DICOM files through their window, and write masks as DICOM with the geometry of the medical image.

Needs pydicom, the extra `dicom`.
"""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from casmap.io.arrays import Window, apply_window, stretch_to_uint8
from casmap.io.atomic import whole_file

SUFFIX = ".dcm"
MASK = "casmap mask"
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


def dicom_size(file: Path | io.BytesIO) -> tuple[int, int]:
    """Return width and height from the file's header."""
    from pydicom import dcmread

    data = dcmread(file, stop_before_pixels=True)
    return int(data.get("Columns", 0)), int(data.get("Rows", 0))


def open_dicom(source: Path | io.BytesIO, max_pixels: int, window: Window | None = None) -> npt.NDArray[np.uint8]:
    """Return the first frame of a file in 8 bits: grey (H, W) or RGB (H, W, 3).

    Grey values are rescaled and windowed as the file specifies; window: centre and width to use instead of the file's.
    max_pixels: raise ValueError if the frame has more pixels.
    """
    from pydicom import dcmread
    from pydicom.pixels.processing import apply_color_lut, apply_rescale, apply_voi
    from pydicom.pixels.utils import pixel_array

    data = dcmread(source)
    pixels = int(data.get("Rows", 0)) * int(data.get("Columns", 0))
    if not 0 < pixels <= max_pixels:
        raise ValueError(f"it has more than {max_pixels // 10**6} million pixels" if pixels else "it has no image")
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


def write_dicom_mask(photo: Path, mask: npt.NDArray[np.float32], out: Path) -> None:
    """Write a mask (H, W) as DICOM with the position, spacing and patient of its medical image `photo`."""
    from pydicom import dcmread
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

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
