"""Whether a file is the one the Hub states: the hashes it names files by.

Takes a file and a hash, gives yes or no. Must not know the network. The Hub names a file in git by
git's SHA-1 of the blob, a large one by the SHA-256 of its content.
"""

import hashlib
from pathlib import Path

PIECE = 2**20


def digest_bytes(data: bytes) -> dict[str, str]:
    """Hash content both ways: `blob_id` as git does, `sha256` as LFS does."""
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return {"blob_id": git.hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}


def matches(path: Path, expected: str) -> bool:
    """Hash a file the way `expected` was made (40 digits: git, 64: LFS) and compare."""
    if len(expected) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest() == expected
