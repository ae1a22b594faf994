"""Disk quota for uploads and results, per client and in total.

Files are removed in order of least recent use; `note_use` records a use.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MAX_CLIENT_MIB = 20
"""Quota of one client: four uploads of the maximum size."""

MAX_TOTAL_MIB = 300
"""Quota of uploads and results of all clients."""

MAX_FILES = 3_000
"""Maximum number of files of all clients: small files use inodes."""


class _File(NamedTuple):
    used_at: float
    size: int
    path: str


def note_use(path: Path) -> None:
    """Set a file's time of last use to now."""
    with contextlib.suppress(OSError):
        path.touch()


@dataclasses.dataclass(slots=True)
class UploadQuota:
    """Tracks uploads by client address and enforces the quotas."""

    _owners: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """Path -> addresses: identical files are stored once."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def add(self, address: str, paths: Iterable[str]) -> None:
        """Record a client's uploads and remove its least recently used files beyond its quota."""
        with self._lock:
            for path in paths:
                note_use(Path(path))
                self._owners.setdefault(path, set()).add(address)
            own = _stat(path for path, owners in self._owners.items() if address in owners)
            for file in _excess(own, MAX_CLIENT_MIB, MAX_FILES):
                self._disown(file.path, address)

    def _disown(self, path: str, address: str) -> None:
        self._owners[path].discard(address)
        if not self._owners[path]:
            _remove(path)

    def trim(self, paths: Iterable[str]) -> None:
        """Remove the least recently used of these files beyond the total quota."""
        with self._lock:
            for file in _excess(_stat(paths), MAX_TOTAL_MIB, MAX_FILES):
                _remove(file.path)
            gone = [path for path in self._owners if not Path(path).exists()]
            for path in gone:
                del self._owners[path]


def _stat(paths: Iterable[str]) -> list[_File]:
    """Return the existing files, most recently used first."""
    files = []
    for path in paths:
        with contextlib.suppress(OSError):
            stat = Path(path).stat()
            files.append(_File(stat.st_mtime, stat.st_size, path))
    return sorted(files, reverse=True)


def _excess(files: list[_File], max_mib: int, max_files: int) -> list[_File]:
    """Return the least recently used files beyond a limit; the newest is always kept."""
    kept = size = 0
    for file in files:
        size += file.size
        if kept and (size > max_mib * 2**20 or kept >= max_files):
            break
        kept += 1
    return files[kept:]


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
    with contextlib.suppress(OSError):  # the parent is named by the file's hash; remove it if empty
        Path(path).parent.rmdir()
