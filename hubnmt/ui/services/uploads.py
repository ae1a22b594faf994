"""Disk space of uploads and results: a limit for each client and one for all.

Files are removed in the order of their last use, oldest first; `note_use` sets it.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MAX_CLIENT_MIB = 20
"""Uploads of one client: four of the largest."""

MAX_TOTAL_MIB = 300
"""Uploads and results of all clients."""

MAX_FILES = 3_000
"""Files of all clients: small ones take inodes."""


class _File(NamedTuple):
    used_at: float
    size: int
    path: str


def note_use(path: Path) -> None:
    """Remember that a file was used now."""
    with contextlib.suppress(OSError):
        path.touch()


@dataclasses.dataclass(slots=True)
class UploadQuota:
    """Who uploaded what."""

    _owners: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """Path to addresses: equal files are stored once."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def add(self, address: str, paths: Iterable[str]) -> None:
        """Note what a client uploaded, and remove its oldest files beyond its limit."""
        with self._lock:
            for path in paths:
                note_use(Path(path))
                self._owners.setdefault(path, set()).add(address)
            own = _look_at(path for path, owners in self._owners.items() if address in owners)
            for file in _excess(own, MAX_CLIENT_MIB, MAX_FILES):
                self._disown(file.path, address)

    def _disown(self, path: str, address: str) -> None:
        self._owners[path].discard(address)
        if not self._owners[path]:
            _remove(path)

    def trim(self, paths: Iterable[str]) -> None:
        """Remove the oldest of these files beyond the limit for all clients."""
        with self._lock:
            for file in _excess(_look_at(paths), MAX_TOTAL_MIB, MAX_FILES):
                _remove(file.path)
            gone = [path for path in self._owners if not Path(path).exists()]
            for path in gone:
                del self._owners[path]


def _look_at(paths: Iterable[str]) -> list[_File]:
    """List the files that are still there, the one used last first."""
    files = []
    for path in paths:
        with contextlib.suppress(OSError):
            stat = Path(path).stat()
            files.append(_File(stat.st_mtime, stat.st_size, path))
    return sorted(files, reverse=True)


def _excess(files: list[_File], max_mib: int, max_files: int) -> list[_File]:
    """Return the oldest files beyond a limit, of which the newest is none."""
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
    with contextlib.suppress(OSError):  # its folder, named by its hash, if nothing else is in it
        Path(path).parent.rmdir()
