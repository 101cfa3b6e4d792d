"""Masks in picture files."""

from pathlib import Path

from casmap.annotations.types import Kind, LeftOut, Mask, Size
from casmap.errors import UserError
from casmap.io.images import open_image


def open_mask(path: Path) -> Mask:
    """A picture's first channel: (H, W)."""
    try:
        return open_image(path)[..., 0]
    except UserError as error:
        raise LeftOut(Kind.MASK_LEFT_OUT, f"the mask {str(error).rstrip('.')}") from error


def check_size(mask: Size, photo: Size) -> None:
    """Refuse a mask of another size than its photo."""
    if mask != photo:
        raise LeftOut(Kind.MASK_SIZE, f"the mask is {mask[0]} x {mask[1]}, the photo {photo[0]} x {photo[1]}")
