"""Make glibc reuse freed memory instead of requesting it again from the kernel for every layer of a network."""

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # the numbers in glibc's malloc.h
BLOCK = 1 << 30


def reuse_memory() -> bool:
    """Make glibc keep up to 1 GiB of freed memory; return False if the C library is not glibc.

    Without it the memory of every large feature map returns to the kernel and comes back as fresh pages, which on two
    cores took a third of the time of a forward pass at 224 px, and three fifths at 416 (docs/experiments.md, 25).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, BLOCK) and mallopt(TRIM_THRESHOLD, BLOCK))
