"""Scripts: what a language is written in, and how much of a text is."""

import pytest

from training.data.cleaning import SCRIPTS, script_share, scripts_of


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


SENTENCES = {
    "de": "Grüße aus Köln, 2 Straßen weiter!",
    "en": "Two men are at the stove.",
    "ml": "മഞ്ഞിൽ ഒരു നായ ഓടുന്നു. എന്റെ",
    "ru": "Съешь ещё этих мягких булок",
    "ar": "اللغة العربية",
    "ja": "私はカタカナとひらがなを書く",
    "ko": "한국어를 배웁니다",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_all_of_its_own_script_and_of_no_other(language: str) -> None:
    own = scripts_of(language)
    assert script_share(SENTENCES[language], own) == 1
    for other, scripts in SCRIPTS.items():
        if not scripts & own:
            assert script_share(SENTENCES[language], scripts) == 0, other


def test_letters_count_and_nothing_else() -> None:
    malayalam = scripts_of("ml")
    assert script_share("Wi-Fi 123 !? ക", malayalam) == pytest.approx(1 / 5)
    # The two vowel signs are no letters: one letter against one.
    assert script_share("a കിി", malayalam) == pytest.approx(1 / 2)


@pytest.mark.parametrize("text", ["", "12:30", "?!", "🙂 — 5 %", "\u200d"])
def test_a_text_without_letters_is_of_any_script(text: str) -> None:
    assert script_share(text, scripts_of("ml")) == 1
