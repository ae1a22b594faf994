"""Characters of Unicode: normalisation, grapheme clusters, words and scripts.

Clusters are the extended grapheme clusters of https://www.unicode.org/reports/tr29/.
"""

import functools
import unicodedata

import regex
from tokenizers import normalizers

from hubnmt.errors import InputError

CHILLUS = {
    "\u0d23\u0d4d\u200d": "\u0d7a",
    "\u0d28\u0d4d\u200d": "\u0d7b",
    "\u0d30\u0d4d\u200d": "\u0d7c",
    "\u0d32\u0d4d\u200d": "\u0d7d",
    "\u0d33\u0d4d\u200d": "\u0d7e",
    "\u0d15\u0d4d\u200d": "\u0d7f",
}
"""Malayalam chillus as consonant + virama + ZWJ, and their atomic letters (Unicode 5.1)."""

NORMAL_STEPS = [
    # The library's NFC rather than Python's, as their Unicode versions differ.
    normalizers.NFC(),
    *(normalizers.Replace(spelled, letter) for spelled, letter in CHILLUS.items()),
]
_NORMALIZER = normalizers.Sequence(NORMAL_STEPS)

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


def normalize(text: str) -> str:
    """Return the text in NFC with unified chillus, as the model receives it.

    Raises:
        InputError: if the text has a lone surrogate, which cannot be encoded in UTF-8.
    """
    try:
        return _NORMALIZER.normalize_str(text)
    except (TypeError, UnicodeEncodeError):
        raise InputError(
            "the text has a lone surrogate, which is not a valid character; remove it"
        ) from None


def single_spaced(text: str) -> str:
    """Collapse white space to single spaces and strip it at both ends.

    Tabs, no-break spaces and repeated spaces do not occur in the training data.
    """
    return " ".join(text.split())


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
