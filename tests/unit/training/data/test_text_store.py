"""The store of texts: duplicates go, the first stays, and the report says how many."""

import random
from array import array
from collections.abc import Iterable
from pathlib import Path

import pytest

from training.data import arrow
from training.data.cleaning import CleaningReport
from training.data.corpora import CleanPair
from training.data.text_store import find_firsts, read_report, read_texts, write_texts


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ROWS_PER_CHUNK", 2)


PAIRS = [
    CleanPair("Ja.", "Yes.", 0, "Ja."),
    CleanPair("Ja.", "Yeah.", 0, "Ja."),
    CleanPair("Ja .", "Yes.", 0, "Ja ."),
    CleanPair("<bt> Nein.", "No.", 1, "Nein."),
    CleanPair("<bt> Ja.", "Yes.", 1, "Ja."),
    CleanPair("<bt> Nein.", "No.", 1, "Nein."),
]


def write(folder: Path, pairs: Iterable[CleanPair], *, drop_duplicates: bool) -> CleaningReport:
    report = CleaningReport()
    report.read.update({"main": 3, "back": 3})
    names = ["main", "back"]
    write_texts(folder, pairs, report, names=names, drop_duplicates=drop_duplicates)
    return report


def rows_of(folder: Path) -> list[tuple[int, str, str]]:
    return [row for chunk in read_texts(folder) for row in zip(*chunk, strict=True)]


def test_of_equal_pairs_the_first_stays_and_other_translations_do(tmp_path: Path) -> None:
    write(tmp_path, PAIRS, drop_duplicates=True)
    assert rows_of(tmp_path) == [
        (0, "Ja.", "Yes."),
        (0, "Ja.", "Yeah."),
        (1, "<bt> Nein.", "No."),
    ]


def test_duplicates_are_counted_where_they_stood(tmp_path: Path) -> None:
    report = write(tmp_path, PAIRS, drop_duplicates=True)
    assert report.drops == {"main": {"duplicate": 1}, "back": {"duplicate": 2}}
    assert read_report(tmp_path) == report


def test_duplicates_may_stay(tmp_path: Path) -> None:
    report = write(tmp_path, PAIRS, drop_duplicates=False)
    assert rows_of(tmp_path) == [(pair.corpus, pair.src, pair.tgt) for pair in PAIRS]
    assert report.n_kept == 6


@pytest.mark.parametrize("drop_duplicates", [True, False])
def test_what_the_reader_counted_meanwhile_is_stored(drop_duplicates: bool, tmp_path: Path) -> None:
    report = CleaningReport()

    def read() -> Iterable[CleanPair]:
        for pair in PAIRS[:2]:
            report.read["main"] += 1
            yield pair
        report.read["main"] += 1
        report.drop("main", "empty")

    write_texts(tmp_path, read(), report, names=["main"], drop_duplicates=drop_duplicates)
    assert (read_report(tmp_path).n_read, read_report(tmp_path).n_kept) == (3, 2)


def test_no_draft_is_left(tmp_path: Path) -> None:
    write(tmp_path, PAIRS, drop_duplicates=True)
    assert {path.name for path in tmp_path.iterdir()} == {"texts.arrow", "report.json"}


def test_no_pairs_make_an_empty_file(tmp_path: Path) -> None:
    write(tmp_path, [], drop_duplicates=True)
    assert rows_of(tmp_path) == []


def test_firsts_are_those_that_a_set_would_find() -> None:
    rng = random.Random(1)
    values = [rng.randrange(-40, 40) * 2**57 for _ in range(200)]
    seen: set[int] = set()
    expected = [value not in seen and not seen.add(value) for value in values]  # type: ignore[func-returns-value]
    assert find_firsts(array("q", values)).tolist() == expected
    assert find_firsts(array("q")).tolist() == []
