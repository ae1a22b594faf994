"""A cache of folders, each complete or absent, whatever other processes do."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hubnmt.errors import InputError

STALE_S = 24 * 3600
"""Age in seconds after which a draft is assumed to be left by a killed process."""


def cached(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the cache entry of a key; `build` writes its files if it is missing.

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
        draft.chmod(folder.stat().st_mode & 0o777)  # the cache may be shared with other users
        build(draft)
        for path in draft.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        try:
            draft.rename(entry)
        except OSError:
            if not entry.is_dir():  # another process was faster
                raise
    except OSError as error:
        raise InputError(
            f"{folder}: the cache cannot be written ({error.strerror or error}); "
            "free disk space, or choose another with --set data.cache=FOLDER"
        ) from None
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return entry


def _remove_stale_drafts(folder: Path) -> None:
    for path in folder.glob(".draft-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_S:
                shutil.rmtree(path, ignore_errors=True)
