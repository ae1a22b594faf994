"""The record in `best/`: what is written is read, and an invalid file gives None."""

from pathlib import Path

import pytest

from training.run.best_record import RECORD_FILE, read_best_record, record_file


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = {"step": 40, "bleu": 31.5, "bleu_signature": "nrefs:1", "dev_loss": 1.25}
    ((name, text),) = record_file(record).items()
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_best_record(tmp_path) == record


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "{}", '{"step": 3}', '{"step": 3, "bleu": "x"}']
)
def test_an_invalid_record_gives_none(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / RECORD_FILE).write_text(text, encoding="utf-8")
    assert read_best_record(tmp_path) is None
