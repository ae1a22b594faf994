"""Configuration of the C library's allocator for repeated searches."""

import ctypes

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
"""Source: mallopt(3), https://man7.org/linux/man-pages/man3/mallopt.3.html"""
MAX_KEPT_BYTES = 2**28
"""Freed memory that the process keeps: what a search with 64 sentences and five hypotheses frees
at its end, 70 to 140 MB, twice."""
MAX_BLOCK_BYTES = 2**25
"""Largest block that is kept, the most that glibc allows."""


def keep_freed_memory() -> None:
    """Make glibc's malloc keep freed memory, since every search needs the same sizes again.

    By default large blocks go back to the system, and page faults then take up to a fifth of the
    time of a beam search. Does nothing with other C libraries.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    mallopt(M_MMAP_THRESHOLD, MAX_BLOCK_BYTES)
    mallopt(M_TRIM_THRESHOLD, MAX_KEPT_BYTES)
