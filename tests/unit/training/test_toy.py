"""The toy corpus."""

from pathlib import Path

import pytest

from training.toy import main


def test_a_text_of_the_users_is_not_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "valid.src").write_text("my own\n", encoding="utf-8")
    assert main([str(tmp_path)]) == 2
    assert "valid.src has other content; choose another folder" in caplog.text
    assert (tmp_path / "valid.src").read_text(encoding="utf-8") == "my own\n"
