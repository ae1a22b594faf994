"""Characters, words and languages: nothing a reader sees as one is counted as two."""

import itertools

import pytest

from hubnmt.text.characters import number_characters, number_words
from hubnmt.text.languages import main_tag


def cut(text: str, numbers: list[int]) -> list[str]:
    """Put code points of equal numbers together."""
    groups = itertools.groupby(zip(numbers, text, strict=True), key=lambda pair: pair[0])
    return ["".join(char for _, char in group) for _, group in groups]


@pytest.mark.parametrize(
    "characters",
    [
        ["e\u0301", "x", "o\u0308\u0301"],
        ["മ", "ഞ്ഞി", "ൽ", " ", "ഒ", "രു"],
        ["👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "!"],
        ["🇩🇪", "🇫🇷", "🇮🇳"],
        ["🇩", "a", "🇫🇷"],
        ["🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "x"],
        ["\r\n", "\n", "\r", "x"],
        ["می\u200c", "خواهم"[0]],
        [],
    ],
    ids=ascii,
)
def test_a_character_is_what_a_reader_calls_one(characters: list[str]) -> None:
    expected = characters if characters != ["می\u200c", "خ"] else ["م", "ی\u200c", "خ"]
    assert cut("".join(characters), number_characters("".join(characters))) == expected


@pytest.mark.parametrize(
    "words",
    [
        ["Ein", " Hund", ",", " 2026", "!"],
        ["A", " dog's", " T", "-", "shirt", "..."],
        ["Don\u2019t", " say", " '", "hi", "'!"],
        ["മഞ്ഞിൽ", " ഒരു", " നായ", "."],
        [" \t Ein", "\n\nHund", "  "],
        ["Ja", " 👩\u200d👧👍🏽", "!?"],
        ["狗跑了", "。"],
        ["e\u0301te\u0301"],
        [" "],
        [],
    ],
    ids=ascii,
)
def test_words_are_letters_and_digits_and_carry_the_space_before_them(words: list[str]) -> None:
    assert cut("".join(words), number_words("".join(words))) == words


@pytest.mark.parametrize(("tag", "code"), [("pt-BR", "pt"), ("zh_Hans", "zh"), ("EN", "en")])
def test_a_tag_is_reduced_to_its_language(tag: str, code: str):
    assert main_tag(tag) == code
