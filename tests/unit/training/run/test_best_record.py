"""The note in `best/`: what is written is read, and what is no note is none."""

from pathlib import Path

import pytest

from training.run.best_record import NOTE_FILE, read_note, write_note


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = {"step": 40, "bleu": 31.5, "bleu_signature": "nrefs:1", "dev_loss": 1.25}
    ((name, text),) = write_note(record).items()
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_note(tmp_path) == record


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "{}", '{"step": 3}', '{"step": 3, "bleu": "x"}']
)
def test_what_is_no_note_is_none(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / NOTE_FILE).write_text(text, encoding="utf-8")
    assert read_note(tmp_path) is None
