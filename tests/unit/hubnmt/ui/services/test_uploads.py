import os
from pathlib import Path

import pytest

from hubnmt.ui.services import uploads
from hubnmt.ui.services.uploads import UploadQuota


def make(folder: Path, name: str, used_at: float, n_bytes: int = 600_000) -> str:
    path = folder / name / "a.txt"
    path.parent.mkdir()
    path.write_bytes(bytes(n_bytes))
    os.utime(path, (used_at, used_at))
    return str(path)


def there(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.rglob("a.txt"))


def test_a_file_of_two_clients_stays_until_neither_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(uploads, "MAX_CLIENT_MIB", 1)
    quota, shared = UploadQuota(), make(tmp_path, "shared", 1)
    quota.add("a", [shared])
    quota.add("b", [shared])
    quota.add("a", [make(tmp_path, "of a", 2)])
    assert there(tmp_path) == ["of a", "shared"]
    quota.add("b", [make(tmp_path, "of b", 3)])
    assert there(tmp_path) == ["of a", "of b"]


def test_the_number_of_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "MAX_FILES", 2)
    UploadQuota().trim(make(tmp_path, str(n), n + 1, 1) for n in range(4))
    assert there(tmp_path) == ["2", "3"]
