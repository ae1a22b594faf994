"""Headers: names are found whatever their case, and none is taken for a pair."""

import pytest

from hubnmt.errors import InputError
from training.data.headers import Columns, find_columns


def find(*first: str, wanted: tuple[str, ...] = ("de", "en"), is_explicit: bool = False) -> Columns:
    return find_columns(first, wanted, where="a.tsv", is_explicit=is_explicit)


@pytest.mark.parametrize("first", [("en", "de"), ("EN", "De"), (" en", "DE ")])
def test_names_are_found_in_any_order_and_case(first: tuple[str, ...]) -> None:
    assert find(*first) == Columns(["en", "de"], "de", "en", True)


def test_other_columns_keep_their_names_and_a_filter_is_found_too() -> None:
    found = find("Licence", "DE", "en", "Source", wanted=("de", "en", "source"))
    assert found == Columns(["Licence", "de", "en", "source"], "de", "en", True)


def test_the_very_names_are_preferred_to_those_in_another_case() -> None:
    assert find("DE", "de", "en").names == ["DE", "de", "en"]


def test_names_that_are_the_same_but_for_their_case_are_refused() -> None:
    with pytest.raises(InputError, match="no column 'de' or 'en'"):
        find("De", "DE", "EN")


@pytest.mark.parametrize(
    "first",
    [
        ("English", "German"),
        ("source", "target"),
        ("src", "TGT"),
        ("source_text", "target text"),
        ("fr", "es"),
        ("de-AT", "en_GB"),
        ("de", "what it says"),
        ("", "EN"),
    ],
)
def test_a_line_like_a_header_is_no_pair(first: tuple[str, str]) -> None:
    with pytest.raises(InputError, match=r"a\.tsv: its first line, .* set src_column and tgt_col"):
        find(*first)
    assert find(*first, wanted=("1", "2"), is_explicit=True) == Columns(["1", "2"], "1", "2", False)


@pytest.mark.parametrize(
    "first",
    [
        ("eins", "one"),
        ("Ja.", "Yes."),
        ("Das ist der Text.", "Text of the law"),
        ("source of the river", "Quelle des Flusses"),
    ],
)
def test_a_pair_is_no_header(first: tuple[str, str]) -> None:
    assert find(*first) == Columns(["1", "2"], "1", "2", False)


def test_an_empty_table_has_no_columns() -> None:
    assert find() == Columns([], "de", "en", False)
