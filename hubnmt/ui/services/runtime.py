"""Configuration of the C library's allocator for the page's process."""

import ctypes

M_ARENA_MAX = -8
"""Source: mallopt(3), https://man7.org/linux/man-pages/man3/mallopt.3.html"""
N_ARENAS = 2


def share_arenas() -> None:
    """Limit glibc to two malloc arenas; do nothing with other C libraries.

    By default glibc creates up to eight arenas per core for the server's threads, and each retains
    the peak memory of its largest request, so that memory grew steadily with fifty clients. Only
    one model runs at a time, so contention is negligible.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    mallopt(M_ARENA_MAX, N_ARENAS)
