"""The cache: an entry is whole or not there, whoever else works on it."""

from pathlib import Path

import pytest

from hubnmt.errors import InputError
from training.data.cache import cached


def write_hello(folder: Path) -> None:
    (folder / "hello.txt").write_text("hello", encoding="utf-8")


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_hello(folder)
        raise InputError("line 3 is odd")

    with pytest.raises(InputError, match="line 3 is odd"):
        cached(tmp_path, "key", fail)
    assert list(tmp_path.iterdir()) == []
    assert (cached(tmp_path, "key", write_hello) / "hello.txt").exists()


def test_of_two_that_build_at_once_the_first_to_end_is_kept(tmp_path: Path) -> None:
    def build_slowly(folder: Path) -> None:
        cached(tmp_path, "key", write_hello)  # the other process, faster
        (folder / "hello.txt").write_text("too late", encoding="utf-8")

    entry = cached(tmp_path, "key", build_slowly)
    assert (entry / "hello.txt").read_text(encoding="utf-8") == "hello"
    assert list(tmp_path.iterdir()) == [entry]
