"""A phrase book has its entries as people type them."""

from pathlib import Path

import pytest

from training.augment.typing_variants import add_variants, main


def test_a_german_entry_has_all_variants() -> None:
    assert {*add_variants([("Schöne Grüße!", "Best wishes!")], src_lang="de")} == {
        ("Schöne Grüße!", "Best wishes!"),
        ("schöne grüße!", "Best wishes!"),
        ("Schoene Gruesse!", "Best wishes!"),
        ("schoene gruesse!", "Best wishes!"),
        ("Schöne Grüße", "Best wishes"),
        ("schöne grüße", "Best wishes"),
        ("Schoene Gruesse", "Best wishes"),
        ("schoene gruesse", "Best wishes"),
    }


def test_a_french_entry_is_also_typed_without_accents() -> None:
    assert {*add_variants([("Où est ma sœur ?", "Where is my sister?")], src_lang="fr")} == {
        ("Où est ma sœur ?", "Where is my sister?"),
        ("où est ma sœur ?", "Where is my sister?"),
        ("Ou est ma soeur ?", "Where is my sister?"),
        ("ou est ma soeur ?", "Where is my sister?"),
        ("Où est ma sœur", "Where is my sister"),
        ("où est ma sœur", "Where is my sister"),
        ("Ou est ma soeur", "Where is my sister"),
        ("ou est ma soeur", "Where is my sister"),
    }


def test_an_entry_is_also_typed_without_commas() -> None:
    variants = add_variants([("No, thank you", "Non, merci")], src_lang="en")
    assert variants == [
        ("No, thank you", "Non, merci"),
        ("no, thank you", "Non, merci"),
        ("No thank you", "Non, merci"),
        ("no thank you", "Non, merci"),
    ]


def test_the_command_keeps_the_header(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book, output = tmp_path / "book.tsv", tmp_path / "new" / "out.tsv"
    book.write_text("en\tfr\nHello!\tBonjour !\n", encoding="utf-8")
    assert main([str(book), "--output", str(output)]) == 0
    assert output.read_text(encoding="utf-8").splitlines() == [
        "en\tfr",
        "Hello!\tBonjour !",
        "hello!\tBonjour !",
        "Hello\tBonjour",
        "hello\tBonjour",
    ]
    assert main([str(book), "--output", str(output)]) == 2
    assert "must end in .tsv and not exist yet" in caplog.text


@pytest.mark.parametrize(
    ("text", "reason"), [("Hello!\n", "two languages"), ("en\tfr\n", "no pairs"), ("", "header")]
)
def test_a_table_without_header_or_pairs_is_refused(
    text: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = tmp_path / "book.tsv"
    book.write_text(text, encoding="utf-8")
    assert main([str(book), "--output", str(tmp_path / "out.tsv")]) == 2
    assert reason in caplog.text
