"""Results kept on disk under the key of what they were made from.

Takes a key and a way to make the files, gives a folder that holds them whole. Must not know what
they are. A folder is made beside its place, flushed to the disk, and moved there in one step: a
torn one is never seen, and of two processes that make the same one, the later uses the earlier's.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hubnmt.errors import InputError

STALE_S = 24 * 3600
"""Drafts older than this were left by a process that was killed."""


def cached(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the entry of a key, built first if there is none.

    Args:
        folder: the cache.
        key: a file name that changes with whatever decides the content.
        build: writes the entry's files into the folder it is given.

    Raises:
        InputError: if the cache cannot be written.
    """
    entry = folder / key
    if entry.is_dir():
        return entry
    draft: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale_drafts(folder)
        draft = Path(tempfile.mkdtemp(prefix=f".draft-{key}-", dir=folder))
        draft.chmod(folder.stat().st_mode & 0o777)  # others may share the cache
        build(draft)
        for path in draft.iterdir():
            _flush(path)
        _move(draft, entry)
    except OSError as error:
        raise InputError(
            f"{folder}: the cache cannot be written ({error.strerror or error}); "
            "make room, or choose another with --set data.cache=FOLDER"
        ) from None
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return entry


def _move(draft: Path, entry: Path) -> None:
    """Put a draft in its place, unless another process was faster."""
    try:
        draft.rename(entry)
    except OSError:
        if not entry.is_dir():
            raise


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove_stale_drafts(folder: Path) -> None:
    for path in folder.glob(".draft-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_S:
                shutil.rmtree(path, ignore_errors=True)
