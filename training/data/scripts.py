"""Which script a language is written in, and how much of a text is.

Takes text and language tags, gives a share of letters. Must not know corpora. Scripts are told
apart by the first word of a letter's Unicode name, which is all that the standard library knows.
"""

import collections
import functools
import unicodedata

from hubnmt.text.sentences import base_language

_LATIN = (
    "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms mt nb nl nn no pl pt ro sk "
    "sl sq sv sw tl tr vi"
)
_CYRILLIC = "be bg kk ky mk mn ru tg uk"
_DEVANAGARI = "hi mr ne sa"
_ARABIC = "ar fa ps ur"

SCRIPTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_LATIN.split(), frozenset({"LATIN"})),
    **dict.fromkeys(_CYRILLIC.split(), frozenset({"CYRILLIC"})),
    **dict.fromkeys(_DEVANAGARI.split(), frozenset({"DEVANAGARI"})),
    **dict.fromkeys(_ARABIC.split(), frozenset({"ARABIC"})),
    "am": frozenset({"ETHIOPIC"}),
    "as": frozenset({"BENGALI"}),
    "bn": frozenset({"BENGALI"}),
    "el": frozenset({"GREEK"}),
    "gu": frozenset({"GUJARATI"}),
    "he": frozenset({"HEBREW"}),
    "hy": frozenset({"ARMENIAN"}),
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    "ka": frozenset({"GEORGIAN"}),
    "km": frozenset({"KHMER"}),
    "kn": frozenset({"KANNADA"}),
    "ko": frozenset({"HANGUL", "CJK"}),
    "lo": frozenset({"LAO"}),
    "ml": frozenset({"MALAYALAM"}),
    "my": frozenset({"MYANMAR"}),
    "or": frozenset({"ORIYA"}),
    "pa": frozenset({"GURMUKHI"}),
    "si": frozenset({"SINHALA"}),
    "ta": frozenset({"TAMIL"}),
    "te": frozenset({"TELUGU"}),
    "th": frozenset({"THAI"}),
    "yi": frozenset({"HEBREW"}),
    "zh": frozenset({"CJK"}),
}
"""Languages written in one way only; of any other every script is right."""

SUBTAGS = {"latn": "LATIN", "cyrl": "CYRILLIC", "deva": "DEVANAGARI", "arab": "ARABIC"}
"""Script subtags of BCP 47, which overrule the language: `sr-Latn`."""


def scripts_of(language: str) -> frozenset[str]:
    """Return the scripts of a language; empty means any.

    Args:
        language: BCP 47 tag, or as FLORES spells it (`mal_Mlym`).
    """
    for subtag in language.lower().replace("_", "-").split("-")[1:]:
        if subtag in SUBTAGS:
            return frozenset({SUBTAGS[subtag]})
    return SCRIPTS.get(base_language(language), frozenset())


def script_share(text: str, scripts: frozenset[str]) -> float:
    """Return the share of letters that are of these scripts; 1 for a text without letters.

    Combining marks count for nothing, so that a vowel sign is no vote of its own.
    """
    n_letters = n_right = 0
    for char, count in collections.Counter(text).items():
        script = _script(char)
        if script:
            n_letters += count
            n_right += count if script in scripts else 0
    return n_right / n_letters if n_letters else 1.0


@functools.lru_cache(maxsize=65_536)
def _script(char: str) -> str:
    """Return the script of a letter; empty for anything else."""
    if not unicodedata.category(char).startswith("L"):
        return ""
    return unicodedata.name(char, "UNNAMED").split()[0].split("-")[0]
