"""How much freed memory the page's process may keep.

Takes nothing, changes the C library's allocator. Must not know the page.
"""

import ctypes

M_ARENA_MAX = -8
"""Source: mallopt(3), https://man7.org/linux/man-pages/man3/mallopt.3.html"""
N_ARENAS = 2


def share_arenas() -> None:
    """Let all threads allocate from the same two arenas; only glibc has them.

    By default glibc gives each of a server's threads an arena of its own, up to eight for each
    core, and each keeps what its largest text ever needed: with fifty visitors the process grew for
    as long as one looked. One model works at a time, so there is next to nothing to wait for.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return
    mallopt(M_ARENA_MAX, N_ARENAS)
