"""The phrase books for training and the lists of accepted answers are well-formed tables."""

import re
import unicodedata
from pathlib import Path

import pytest

BOOKS = ("de-en", "en-fr", "en-ml")
LISTS = ("de-en", "en-de", "en-fr", "fr-en", "en-ml")
SLOTS = {"{name}", "{surname}", "{city}", "{firm}", "{number}"}


def read_table(path: Path) -> list[list[str]]:
    """Read the rows of a table, its header first, without any meaning given to quotation marks."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


@pytest.fixture(params=[f"training/phrasebook/{pair}.tsv" for pair in BOOKS])
def book(request: pytest.FixtureRequest, repo: Path) -> Path:
    return repo / request.param


@pytest.fixture(params=[f"tests/fixtures/phrases/{pair}.tsv" for pair in LISTS])
def accepted(request: pytest.FixtureRequest, repo: Path) -> Path:
    return repo / request.param


@pytest.fixture(params=[f"training/phrasebook/frames-{pair}.tsv" for pair in BOOKS])
def frames(request: pytest.FixtureRequest, repo: Path) -> Path:
    return repo / request.param


def check_cells(rows: list[list[str]]) -> None:
    """Check what holds for books and lists alike."""
    assert [row for row in rows if len(row) != 2] == []
    cells = [cell for row in rows for cell in row]
    assert [cell for cell in cells if not cell or cell != cell.strip()] == []
    assert [cell for cell in cells if cell != unicodedata.normalize("NFC", cell)] == []
    assert [cell for cell in cells if "\r" in cell or '"' in cell] == []


def test_a_phrase_book_has_a_column_for_each_language(book: Path):
    header, *rows = read_table(book)
    assert header == book.stem.split("-")
    assert len(rows) >= 500
    check_cells(rows)


def test_a_phrase_book_says_nothing_twice(book: Path):
    rows = [tuple(row) for row in read_table(book)]
    assert len(set(rows)) == len(rows)


def test_frames_have_a_column_for_each_language(frames: Path):
    header, *rows = read_table(frames)
    assert header == frames.stem.split("-")[1:]
    assert len({tuple(row) for row in rows}) == len(rows) >= 150
    check_cells(rows)


def test_a_frame_has_each_slot_once_and_on_both_sides(frames: Path):
    for src, tgt in read_table(frames)[1:]:
        slots = sorted(re.findall(r"\{.*?\}", src))
        assert slots == sorted(re.findall(r"\{.*?\}", tgt))
        assert len(slots) == len(set(slots)) > 0
        assert set(slots) <= SLOTS


def test_a_list_has_200_different_phrases(accepted: Path):
    header, *rows = read_table(accepted)
    assert header == ["src", "accepted"]
    check_cells(rows)
    assert len({src for src, _ in rows}) == len(rows) == 200


def test_every_phrase_of_a_list_has_different_answers(accepted: Path):
    for src, cell in read_table(accepted)[1:]:
        answers = cell.split(" | ")
        assert all(answer and answer == answer.strip(" |") for answer in answers), src
        assert len(set(answers)) == len(answers), src
