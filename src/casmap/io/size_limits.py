"""The largest photo that casmap opens: a limit of its pixels, and one of each side."""

# 512 MB of RGB: more than the largest cameras make (150 megapixels), and a limit for decompression bombs.
MAX_PIXELS = 512 * 2**20 // 3
# The longest side of a JPEG file, in which overlays are written. The product alone limits no side: an image of
# 1 x 64,000,000 pixels is a PNG of 80 bytes, and OpenCV writes no mask of that size.
MAX_SIDE = 65_500


class ExceedsLimit(ValueError):  # noqa: N818 (named like the classes of casmap.errors)
    """A photo above a limit; the text completes the sentence "FILE has ..."."""


def too_many(max_pixels: int) -> str:
    """Return the text of ExceedsLimit for a photo with more pixels.

    >>> too_many(64_000_000)
    'more than 64 million pixels, which is the limit'
    """
    return f"more than {max_pixels // 10**6} million pixels, which is the limit"


def check_size(width: int, height: int, max_pixels: int) -> None:
    """Raise ExceedsLimit for a photo that has too many pixels or a side that is too long.

    >>> check_size(1, 64_000_000, MAX_PIXELS)
    Traceback (most recent call last):
    casmap.io.size_limits.ExceedsLimit: a side of more than 65,500 pixels, which is the limit
    """
    if width * height > max_pixels:
        raise ExceedsLimit(too_many(max_pixels))
    if max(width, height) > MAX_SIDE:
        raise ExceedsLimit(f"a side of more than {MAX_SIDE:,} pixels, which is the limit")
