"""Label Studio's brush masks: run lengths of RGBA pixels, packed in bits (the format of thi.ng/rle-pack).

A stream has the number of values (32 bits), the bits of a value minus 1 (5), and four bit widths of lengths minus 1
(4 each). Then follow groups: a bit that says whether one value is repeated, the number of a width (2), the length minus
1 in that width, and one value, or as many as the length says.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

CHANNELS = 4
VALUE_BITS = 8
WIDTHS = (3, 4, 8, 16)  # bits of a length, as Label Studio's own converter writes them


def encode_brush(mask: npt.NDArray[np.bool_]) -> list[int]:
    """Encode a mask (H, W) as the bytes of Label Studio's `rle`; all four channels are 255 inside and 0 outside.

    >>> encode_brush(np.array([[False, True]]))
    [0, 0, 0, 8, 57, 27, 252, 96, 17, 255, 128]
    """
    flat = mask.ravel()
    ends = np.append(np.flatnonzero(flat[1:] != flat[:-1]) + 1, len(flat))
    groups = [f"{CHANNELS * len(flat):032b}{VALUE_BITS - 1:05b}", *(f"{width - 1:04b}" for width in WIDTHS)]
    start = 0
    for end in ends.tolist():
        left, value = CHANNELS * (end - start), "1" * VALUE_BITS if flat[start] else "0" * VALUE_BITS
        start = end
        while left:
            length = min(left, 1 << WIDTHS[-1])
            at = next(number for number, width in enumerate(WIDTHS) if length <= 1 << width)
            groups.append(f"1{at:02b}{length - 1:0{WIDTHS[at]}b}{value}")
            left -= length
    bits = np.frombuffer("".join(groups).encode(), np.uint8) - ord("0")
    return np.packbits(bits).tolist()


def decode_brush(rle: Sequence[int], size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Decode Label Studio's `rle` for a photo of size (W, H): the pixels (H, W) that are not transparent.

    Raises ValueError if it is not a list, or if the run lengths do not have this size.

    >>> decode_brush([0, 0, 0, 8, 57, 27, 252, 96, 17, 255, 128], (2, 1))
    array([[False,  True]])
    """
    width, height = size
    if not isinstance(rle, list):  # bytes(n) of a number allocates n bytes
        raise ValueError("the run lengths are not a list")
    if int.from_bytes(bytes(rle[:4]), "big") != CHANNELS * width * height:  # before memory is allocated
        raise ValueError("the run lengths are those of another size")
    bits = "".join(f"{byte:08b}" for byte in bytes(rle))
    position = 0

    def read(count: int) -> int:
        nonlocal position
        position += count
        if position > len(bits):
            raise ValueError("the run lengths are incomplete")
        return int(bits[position - count : position], 2)

    number, value_bits, widths = read(32), read(5) + 1, [read(4) + 1 for _ in WIDTHS]
    if value_bits != VALUE_BITS:
        raise ValueError(f"the values do not have {VALUE_BITS} bits")
    values = np.zeros(number, np.uint8)
    at = 0
    while at < number:
        repeated, length = read(1), read(widths[read(2)]) + 1
        if at + length > number:
            raise ValueError("the run lengths are too long")
        if repeated:
            values[at : at + length] = read(VALUE_BITS)
        else:
            values[at : at + length] = [read(VALUE_BITS) for _ in range(length)]
        at += length
    return np.asarray(values.reshape(height, width, CHANNELS)[..., -1] > 0)
