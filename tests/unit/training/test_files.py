"""Saving: whole or not at all, and a disk that is full is one line."""

from pathlib import Path

import pytest

from hubnmt.errors import ModelFolderError
from tests.runs import fill_disk
from training.files import explain_failed_save, replace_text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError("unexpected pos 64 vs 0\nat somewhere"), "unexpected pos 64 vs 0"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_failed_save_is_one_line_with_its_reason(error: Exception, reason: str) -> None:
    message = str(explain_failed_save(Path("runs/x/state.pt"), error))
    assert message.startswith(f"runs/x/state.pt: cannot be saved ({reason}); ")
    assert "\n" not in message


def test_a_text_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text.md"
    replace_text(path, "one")
    with monkeypatch.context() as patch:
        fill_disk(patch, "text.md")
        with pytest.raises(ModelFolderError, match=r"text\.md: .*No space left"):
            replace_text(path, "two")
    assert path.read_text(encoding="utf-8") == "one"
    replace_text(path, "three")
    assert path.read_text(encoding="utf-8") == "three"
