"""Cleaning: broken pairs are dropped and counted, none in silence, and none without need."""

import unicodedata
from typing import Any

import pytest

from hubnmt.text.tokenizer import normalize, single_spaced
from training.config.data import DataConfig
from training.data.cleaning import (
    Cleaner,
    CleaningReport,
    HeldOut,
    comparable,
    fingerprint_pair,
    tidy,
)


def make_config(**changes: Any) -> DataConfig:
    return DataConfig(**({"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"} | changes))


def why(src: str, tgt: str, *held_out: tuple[str, str], **changes: Any) -> str | None:
    return Cleaner(make_config(**changes), HeldOut(held_out)).why_drop(tidy(src), tidy(tgt))


# --- the report ----------------------------------------------------------------------------------


def make_report() -> CleaningReport:
    report = CleaningReport()
    report.read.update({"main": 5, "back": 3})
    report.drop("main", "empty", 2)
    report.drop("back", "empty")
    report.drop("back", "duplicate")
    return report


def test_the_report_reads_as_a_line_and_a_line_for_each_corpus() -> None:
    report = make_report()
    assert str(report) == "4 of 8 pairs kept; dropped: 3 empty, 1 duplicate"
    assert report.lines() == [
        "main: 3 of 5 pairs kept; dropped: 2 empty",
        "back: 1 of 3 pairs kept; dropped: 1 empty, 1 duplicate",
    ]


# --- one text ------------------------------------------------------------------------------------


def test_text_is_stripped_and_normalised() -> None:
    assert tidy(f"  {unicodedata.normalize('NFD', 'Männer')}\t") == "Männer"
    assert tidy("അവന്\u200d") == "അവൻ"  # a chillu spelled with a joiner


@pytest.mark.parametrize(
    "text", ["  a\u00a0b\t", "Ça va\u202f?", "a \x1c\u3000 Ma\u0308nner", "ab"]
)
def test_a_text_is_spaced_alike_to_learn_from_and_to_translate(text: str) -> None:
    assert tidy(text) == normalize(single_spaced(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A dog is running.", "a dog is running"),
        ("Bonjour !", "Bonjour!"),
        ("„Ja“, sagte er.", '"Ja", sagte er.'),
        ("Straße", "STRASSE"),
        ("നമസ്\u200cക്കാരം", "നമസ്ക്കാരം"),
    ],
)
def test_the_same_sentence_is_comparable(one: str, other: str) -> None:
    assert comparable(tidy(one)) == comparable(tidy(other))


@pytest.mark.parametrize(
    ("one", "other"), [("ein Hund", "kein Hund"), ("കി", "കു"), ("a 5", "a 6"), ("1 €", "1 $")]
)
def test_another_sentence_is_not(one: str, other: str) -> None:
    assert comparable(tidy(one)) != comparable(tidy(other))


# --- one pair ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        ("Ein Hund.", "A dog.", None),
        ("Ein \ufffd Hund.", "A dog.", "not valid UTF-8"),
        ("Ein Hund.", "A \ufffd dog.", "not valid UTF-8"),
        ("\0E\0i\0n\0", "A dog.", "not valid UTF-8"),
        ("Ein Hund.", "A dog\0.", "not valid UTF-8"),
        ("", "A dog.", "empty"),
        ("Ein Hund.", " \t\u00a0", "empty"),
        ("Ja." * 20, "Yes.", "absurdly unequal"),
        ("Yes", "Ja." * 20, "absurdly unequal"),
        ("Paris", "Paris", "source = target"),
        ("Ein  Hund", " Ein Hund ", "source = target"),
        ("Привет, мир", "Hello, world", "wrong script"),
        ("Hallo Welt", "Привет, мир", "wrong script"),
        ("12:30 !", "half past twelve", None),
    ],
)
def test_a_pair_stays_or_has_a_reason(src: str, tgt: str, reason: str | None) -> None:
    assert why(src, tgt) == reason


@pytest.mark.parametrize(
    ("n_src", "n_tgt", "is_kept"),
    [(30, 90, True), (30, 91, False), (91, 30, False), (1, 20, True), (1, 21, False)],
)
def test_unequal_means_several_times_longer_and_by_a_margin(
    n_src: int, n_tgt: int, is_kept: bool
) -> None:
    assert (why("x" * n_src, "y" * n_tgt, max_length_ratio=3.0) is None) is is_kept


@pytest.mark.parametrize(
    ("tgt", "share", "is_kept"),
    [
        ("Bluetooth, Android Auto, NFC", 0.5, False),
        ("Bluetooth, Android Auto, NFC", 0.0, True),
        ("Wi-Fi ഓണാക്കുക", 0.5, True),
        ("Wi-Fi ഓണാക്കുക", 0.9, False),
    ],
)
def test_a_malayalam_side_of_latin_letters_is_foreign(
    tgt: str, share: float, is_kept: bool
) -> None:
    found = why("Turn it on", tgt, tgt_lang="ml", src_lang="en", min_script_share=share)
    assert found == (None if is_kept else "wrong script")


@pytest.mark.parametrize(
    "pair", [("Ein Hund rennt", "A dog runs"), ("ein hund rennt!", "x"), ("x", "A dog RUNS.")]
)
def test_a_pair_that_shares_a_side_with_the_held_out_ones_goes(pair: tuple[str, str]) -> None:
    held_out = ("Ein Hund rennt.", "A dog runs.")
    assert why(*pair, held_out) == "in validation or test set"
    assert why(*pair, held_out, drop_held_out=False) is None


def test_equal_pairs_have_one_fingerprint_whatever_their_spaces() -> None:
    assert fingerprint_pair("Ça va ?", "ok") == fingerprint_pair("Ça va?", "ok")
    assert fingerprint_pair("ab", "c") != fingerprint_pair("a", "bc")
    assert fingerprint_pair("Ein Hund", "A dog") != fingerprint_pair("Ein Hund", "One dog")
