"""The toy corpus: the same files each time, nothing in common between its splits."""

from pathlib import Path

import pytest

from training.toy import SPLITS, main, make_lines


def test_no_string_of_the_validation_is_in_the_training() -> None:
    lines = make_lines()
    assert {split: len(set(texts)) for split, texts in lines.items()} == SPLITS
    assert not set(lines["train"]) & set(lines["valid"])


def test_a_text_of_the_users_is_not_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "valid.src").write_text("my own\n", encoding="utf-8")
    assert main([str(tmp_path)]) == 2
    assert "valid.src has other content; choose another folder" in caplog.text
    assert (tmp_path / "valid.src").read_text(encoding="utf-8") == "my own\n"
