"""The phrase books for training are well-formed tables."""

import re
import unicodedata
from pathlib import Path

import pytest

BOOKS = ("de-en", "en-fr", "en-ml")
FIELDS = ("name", "surname", "city", "firm", "number", "date", "time", "weekday")
SLOTS = {f"{{{field}}}" for field in FIELDS}


def read_table(path: Path) -> list[list[str]]:
    """Read the rows of a table, its header first, without any meaning given to quotation marks."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


@pytest.mark.parametrize("pair", BOOKS)
@pytest.mark.parametrize(("prefix", "least"), [("", 500), ("frames-", 150)])
def test_books_and_frames_have_a_column_for_each_language_and_the_same_slots(
    prefix: str, least: int, pair: str, repo: Path
):
    header, *rows = read_table(repo / f"training/phrasebook/{prefix}{pair}.tsv")
    assert header == pair.split("-")
    assert len({tuple(row) for row in rows}) == len(rows) >= least
    assert [row for row in rows if len(row) != 2] == []
    cells = [cell for row in rows for cell in row]
    assert [cell for cell in cells if not cell or cell != cell.strip()] == []
    assert [cell for cell in cells if cell != unicodedata.normalize("NFC", cell)] == []
    assert [cell for cell in cells if "\r" in cell or '"' in cell] == []
    for src, tgt in rows:
        slots = sorted(re.findall(r"\{.*?\}", src))
        assert slots == sorted(re.findall(r"\{.*?\}", tgt))
        assert len(slots) == len(set(slots))
        assert set(slots) <= SLOTS
