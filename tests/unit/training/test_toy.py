"""The toy corpus: the same files each time, nothing in common between its splits."""

from pathlib import Path

import pytest

from training.toy import SPLITS, main, make_lines, write_corpus


def test_no_string_of_the_validation_is_in_the_training() -> None:
    lines = make_lines()
    assert {split: len(set(texts)) for split, texts in lines.items()} == SPLITS
    assert not set(lines["train"]) & set(lines["valid"])


def test_both_sides_are_equal_and_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_corpus(tmp_path / name)
    for split in SPLITS:
        texts = {
            (tmp_path / name / f"{split}.{side}").read_text(encoding="utf-8")
            for name in ("one", "two")
            for side in ("src", "tgt")
        }
        assert len(texts) == 1


def test_the_command_makes_the_folder_the_recipe_asks_for(tmp_path: Path) -> None:
    assert main([str(tmp_path / "runs" / "copy-data")]) == 0
    names = {path.name for path in (tmp_path / "runs" / "copy-data").iterdir()}
    assert names == {"train.src", "train.tgt", "valid.src", "valid.tgt"}


def test_a_text_of_the_users_is_not_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "valid.src").write_text("my own\n", encoding="utf-8")
    assert main([str(tmp_path)]) == 2
    assert "valid.src has other content; choose another folder" in caplog.text
    assert (tmp_path / "valid.src").read_text(encoding="utf-8") == "my own\n"
