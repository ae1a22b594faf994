"""Scripts: what a language is written in, and how much of a text is."""

import pytest

from training.data.cleaning import script_share, scripts_of


@pytest.mark.parametrize(
    ("language", "scripts"),
    [
        ("de", {"LATIN"}),
        ("de-AT", {"LATIN"}),
        ("ml", {"MALAYALAM"}),
        ("ML_in", {"MALAYALAM"}),
        ("ja", {"CJK", "HIRAGANA", "KATAKANA"}),
        ("sr-Latn", {"LATIN"}),
        ("uz-Cyrl-UZ", {"CYRILLIC"}),
        ("sr", set()),
        ("zxx", set()),
        ("deu", {"LATIN"}),
        ("ger", {"LATIN"}),
        ("mal_Mlym", {"MALAYALAM"}),
        ("MAL", {"MALAYALAM"}),
        ("jpn", {"CJK", "HIRAGANA", "KATAKANA"}),
        ("srp_Cyrl", {"CYRILLIC"}),
        ("srp", set()),
    ],
)
def test_a_language_has_its_scripts_and_a_subtag_overrules(
    language: str, scripts: set[str]
) -> None:
    assert scripts_of(language) == scripts


@pytest.mark.parametrize("text", ["", "12:30", "?!", "🙂 — 5 %", "\u200d"])
def test_a_text_without_letters_is_of_any_script(text: str) -> None:
    assert script_share(text, scripts_of("ml")) == 1
