"""Memory that was used is used again, instead of being asked from the kernel anew for every layer of a network."""

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them
BLOCK = 1 << 30


def reuse_memory() -> bool:
    """Tell glibc to keep what is freed, up to 1 GiB; False where another library gives the memory.

    Without it the memory of every large feature map goes back to the kernel and comes back as fresh pages, which on two
    cores took a third of the time of a forward pass at 224 px, and three fifths at 416 (docs/experiments.md, 25).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, BLOCK) and mallopt(TRIM_THRESHOLD, BLOCK))
