"""Grapheme clusters and words of a text, and the scripts of its letters.

Clusters are the extended grapheme clusters of https://www.unicode.org/reports/tr29/.
"""

import functools
import unicodedata

import regex

CLUSTER = regex.compile(r"\X")
WORD = regex.compile(
    r"""\s*(?:
        (?: (?=[\p{L}\p{M}\p{N}\u200c\u200d])\X   # letters, digits and joiners,
          | (?<=\p{L})['’](?=\p{L}) )+            # with apostrophes between letters
        | (?:(?=\p{P})\X)+
        | (?:(?=\p{S})\X)+
        | (?:(?=\p{C})\X)+
    )|\s+""",
    regex.VERBOSE,
)


def number_characters(text: str) -> list[int]:
    """Return the index of the grapheme cluster of each code point."""
    return _number(CLUSTER, text)


def number_words(text: str) -> list[int]:
    """Return the index of the word of each code point.

    A word is a run of letters and digits, of punctuation, or of symbols such as emoji. An
    apostrophe between letters is part of the word, as in "don't". White space belongs to the
    following word. In scripts without spaces a word may be a whole clause.
    """
    return _number(WORD, text)


def _number(pattern: "regex.Pattern[str]", text: str) -> list[int]:
    return [n for n, part in enumerate(pattern.findall(text)) for _ in part]


@functools.lru_cache(maxsize=65_536)
def script_of_letter(char: str) -> str:
    """Return the script in the Unicode name of a letter, such as `LATIN`; empty for others."""
    name = unicodedata.name(char, "UNNAMED") if char.isalpha() else ""
    return name.partition(" ")[0].partition("-")[0]
