"""Masks in picture files: ours, and VOC's pictures of class indices."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image

from casmap.annotations.types import Kind, LeftOut, Mask, Size, Thing
from casmap.errors import UserError
from casmap.io.images import open_image

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
VOC_VOID = 255  # index of the border around objects


def open_mask(path: Path) -> Mask:
    """A picture's first channel: (H, W)."""
    try:
        return open_image(path)[..., 0]
    except UserError as error:
        raise LeftOut(Kind.MASK_LEFT_OUT, f"the mask {str(error).rstrip('.')}") from error


def voc_mask(path: Path, things: Sequence[Thing], size: Size) -> Mask | None:
    """The pixels of the photo's class in a picture of SegmentationClass, whose border is not counted: (H, W).

    None where the class is none of VOC's twenty, which have the indices 1 to 20.
    """
    name = things[0].name if things else ""
    if name not in VOC_CLASSES:
        return None
    try:
        with PIL.Image.open(path, formats=("PNG",)) as picture:
            check_size(picture.size, size)
            if picture.mode not in ("P", "L"):
                raise LeftOut(Kind.MASK_LEFT_OUT, f"the mask {path.name} holds colours, not class indices")
            indices = np.asarray(picture)  # a palette's indices: as RGB they would be its colours
    except LeftOut:
        raise
    except Exception as error:  # decoders raise what they like
        raise LeftOut(Kind.MASK_LEFT_OUT, f"the mask {path.name} cannot be opened") from error
    mask = np.where(indices == VOC_CLASSES.index(name) + 1, np.uint8(255), np.uint8(0))
    mask[indices == VOC_VOID] = 128
    return mask


def check_size(mask: Size, photo: Size) -> None:
    """Refuse a mask of another size than its photo."""
    if mask != photo:
        raise LeftOut(Kind.MASK_SIZE, f"the mask is {mask[0]} x {mask[1]}, the photo {photo[0]} x {photo[1]}")
