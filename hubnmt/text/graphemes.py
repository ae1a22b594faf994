"""Which code points of a text belong together, as characters and as words, to a reader.

Takes a text, gives one number per code point; equal numbers belong together. Must not know
tokens. Characters follow the rules of Unicode's grapheme clusters that matter to text in NFC
(https://www.unicode.org/reports/tr29/): marks and joiners stay with their letter, consonants joined
by a virama stay together, emoji sequences and flags are one.
"""

import unicodedata

ZWNJ, ZWJ = "\u200c", "\u200d"
VIRAMA_CLASS = 9
"""Canonical combining class of the sign that joins two consonants."""


def number_characters(text: str) -> list[int]:
    """Give the code points of one character the same number, from 0 upwards."""
    numbers: list[int] = []
    n_flags = 0
    for position, char in enumerate(text):
        is_flag = "\U0001f1e6" <= char <= "\U0001f1ff"
        n_flags = n_flags + 1 if is_flag else 0
        joins = position > 0 and (joins_previous(text, position) or (is_flag and n_flags % 2 == 0))
        numbers.append(len(numbers) and numbers[-1] + (not joins))
    return numbers


def joins_previous(text: str, position: int) -> bool:
    """Tell whether the code point at a position is part of the character before it."""
    char, before = text[position], text[position - 1]
    category = unicodedata.category(char)
    is_attached = category[0] == "M" or char in (ZWNJ, ZWJ) or _modifies_emoji(char)
    is_conjunct = category == "Lo" and unicodedata.combining(before) == VIRAMA_CLASS
    return is_attached or is_conjunct or before == ZWJ or (before, char) == ("\r", "\n")


def _modifies_emoji(char: str) -> bool:
    """Skin tones, and the tags that spell the flags of regions."""
    return "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def number_words(text: str) -> list[int]:
    """Give the code points of one word the same number, from 0 upwards.

    A word is a run of letters and digits; a run of punctuation, or of symbols such as emoji, is one
    of its own. White space counts with the word behind it. Scripts that write no spaces make words
    as long as a clause.
    """
    numbers: list[int] = []
    word, kind_before = -1, ""
    characters = number_characters(text)
    for position, char in enumerate(text):
        if position and characters[position] == characters[position - 1]:
            numbers.append(word)
            continue
        kind = _kind(char)
        if kind != kind_before and kind_before != " ":
            word += 1
        kind_before = kind
        numbers.append(word)
    return numbers


def _kind(char: str) -> str:
    """Sort a character: `w` in words, a space, or the letter of its category (P, S, C)."""
    if char.isspace():
        return " "
    category = unicodedata.category(char)[0]
    return "w" if category in "LMN" or char in (ZWNJ, ZWJ) else category
