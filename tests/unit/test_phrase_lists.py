"""The phrase books for training and the lists of accepted answers are well-formed tables."""

import re
import unicodedata
from pathlib import Path

import pytest

BOOKS = ("de-en", "en-fr", "en-ml")
LISTS = ("de-en", "en-de", "en-fr", "fr-en", "en-ml")
FIELDS = ("name", "surname", "city", "firm", "number", "date", "time", "weekday")
SLOTS = {f"{{{field}}}" for field in FIELDS}


def read_table(path: Path) -> list[list[str]]:
    """Read the rows of a table, its header first, without any meaning given to quotation marks."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


def check_cells(rows: list[list[str]]) -> None:
    """Check what holds for books and lists alike."""
    assert [row for row in rows if len(row) != 2] == []
    cells = [cell for row in rows for cell in row]
    assert [cell for cell in cells if not cell or cell != cell.strip()] == []
    assert [cell for cell in cells if cell != unicodedata.normalize("NFC", cell)] == []
    assert [cell for cell in cells if "\r" in cell or '"' in cell] == []


@pytest.mark.parametrize("pair", BOOKS)
@pytest.mark.parametrize(("prefix", "least"), [("", 500), ("frames-", 150)])
def test_books_and_frames_have_a_column_for_each_language_and_the_same_slots(
    prefix: str, least: int, pair: str, repo: Path
):
    header, *rows = read_table(repo / f"training/phrasebook/{prefix}{pair}.tsv")
    assert header == pair.split("-")
    assert len({tuple(row) for row in rows}) == len(rows) >= least
    check_cells(rows)
    for src, tgt in rows:
        slots = sorted(re.findall(r"\{.*?\}", src))
        assert slots == sorted(re.findall(r"\{.*?\}", tgt))
        assert len(slots) == len(set(slots))
        assert set(slots) <= SLOTS


@pytest.mark.parametrize("pair", LISTS)
def test_a_list_has_200_different_phrases(pair: str, repo: Path):
    accepted = repo / f"tests/fixtures/phrases/{pair}.tsv"
    header, *rows = read_table(accepted)
    assert header == ["src", "accepted"]
    check_cells(rows)
    assert len({src for src, _ in rows}) == len(rows) == 200
    for src, cell in rows:
        answers = cell.split(" | ")
        assert len(set(answers)) == len(answers), src
        assert all(answer and answer == answer.strip(" |") for answer in answers), src
