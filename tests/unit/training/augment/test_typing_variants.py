"""A phrase book has its entries as people type them."""

from pathlib import Path

import pytest

from training.augment.typing_variants import add_variants, main


@pytest.mark.parametrize(
    ("src_lang", "texts", "tgt"),
    [
        ("de", ["Schöne Grüße!", "schöne grüße!", "Schoene Gruesse!", "schoene gruesse!"], "Hi!"),
        ("fr", ["Où vas-tu ?", "où vas-tu ?", "Ou vas-tu ?", "ou vas-tu ?"], "Where to?"),
        ("en", ["No, thank you", "no, thank you", "No thank you", "no thank you"], "Non, merci"),
    ],
)
def test_an_entry_has_all_variants(src_lang: str, texts: list[str], tgt: str) -> None:
    """Without capitals, accents, commas, and without the mark at the end of both sides."""
    bare = [(text.rstrip(" !?"), tgt.rstrip("!?")) for text in texts]
    expected = {*((text, tgt) for text in texts), *bare}
    assert {*add_variants([(texts[0], tgt)], src_lang=src_lang)} == expected


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
