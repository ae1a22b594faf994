"""Our hashes are git's and the Hub's."""

import subprocess
from pathlib import Path

import pytest

from hubnmt.hub.digest import digest_bytes, matches
from tests.hub_server import Blob

CONTENTS = [b"", b"x", "ü\n".encode(), bytes(range(256)) * 9000]


@pytest.mark.parametrize("data", CONTENTS, ids=len)
def test_hashes_are_those_of_the_hub(data: bytes, tmp_path: Path):
    (tmp_path / "file").write_bytes(data)
    small, large = Blob(data).oid, Blob(data, is_lfs=True).sha256
    assert digest_bytes(data) == {"blob_id": small, "sha256": large}
    assert matches(tmp_path / "file", small)
    assert matches(tmp_path / "file", large)


def test_the_small_one_is_gits(tmp_path: Path):
    (tmp_path / "file").write_bytes(CONTENTS[3])
    command = ["git", "hash-object", "--no-filters", str(tmp_path / "file")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert digest_bytes(CONTENTS[3])["blob_id"] == said


def test_other_content_does_not_match(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"a")
    for expected in digest_bytes(b"b").values():
        assert not matches(tmp_path / "file", expected)
