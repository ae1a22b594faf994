"""Group the code points of a text into grapheme clusters and words.

Implements the rules of Unicode's extended grapheme clusters that apply to NFC text: combining
marks, joiners, conjuncts with a virama, emoji sequences and flags.
Source: https://www.unicode.org/reports/tr29/
"""

import unicodedata

ZWNJ, ZWJ = "\u200c", "\u200d"
APOSTROPHES = "'\u2019"
VIRAMA_CLASS = 9
"""Canonical combining class of the virama, which joins two consonants."""


def number_characters(text: str) -> list[int]:
    """Return the index of the grapheme cluster of each code point."""
    numbers: list[int] = []
    n_flags = 0
    for position, char in enumerate(text):
        is_flag = "\U0001f1e6" <= char <= "\U0001f1ff"
        n_flags = n_flags + 1 if is_flag else 0
        joins = position > 0 and (joins_previous(text, position) or (is_flag and n_flags % 2 == 0))
        numbers.append(len(numbers) and numbers[-1] + (not joins))
    return numbers


def joins_previous(text: str, position: int) -> bool:
    """Return whether a code point belongs to the same grapheme cluster as the one before it."""
    char, before = text[position], text[position - 1]
    category = unicodedata.category(char)
    is_attached = category[0] == "M" or char in (ZWNJ, ZWJ) or _modifies_emoji(char)
    is_conjunct = category == "Lo" and unicodedata.combining(before) == VIRAMA_CLASS
    return is_attached or is_conjunct or before == ZWJ or (before, char) == ("\r", "\n")


def _modifies_emoji(char: str) -> bool:
    """Return whether a character is a skin tone or a tag of a regional flag."""
    return "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def number_words(text: str) -> list[int]:
    """Return the index of the word of each code point.

    A word is a run of letters and digits, of punctuation, or of symbols such as emoji. An
    apostrophe between letters is part of the word, as in "don't". White space belongs to the
    following word. In scripts without spaces a word may be a whole clause.
    """
    numbers: list[int] = []
    word, kind_before = -1, ""
    characters = number_characters(text)
    for position, char in enumerate(text):
        if position and characters[position] == characters[position - 1]:
            numbers.append(word)
            continue
        kind = "w" if _is_inner(text, position) else _kind(char)
        if kind != kind_before and kind_before != " ":
            word += 1
        kind_before = kind
        numbers.append(word)
    return numbers


def _is_inner(text: str, position: int) -> bool:
    """Return whether a character is an apostrophe between letters (rules WB6 and WB7 of UAX 29)."""
    around = text[position - 1 : position] + text[position + 1 : position + 2]
    return text[position] in APOSTROPHES and len(around) == 2 and around.isalpha()


def _kind(char: str) -> str:
    """Return the class of a character: `w` for word, a space, or its category (P, S, C)."""
    if char.isspace():
        return " "
    category = unicodedata.category(char)[0]
    return "w" if category in "LMN" or char in (ZWNJ, ZWJ) else category
