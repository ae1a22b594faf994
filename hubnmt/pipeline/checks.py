"""Checks of a finished translation: source language, numbers and names."""

import dataclasses
import re

from hubnmt.pipeline.names import find_changed_names
from hubnmt.text.detection import Detected, detect_languages
from hubnmt.text.languages import NAMES, language_name, main_tag
from hubnmt.text.protected_spans import PROTECTED
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import UNSURE, Translation, mean_probability

WORD = re.compile(r"[^\W\d_]+")
GROUPED = re.compile(r"(?<=\d)[.,\u00a0\u202f ](?=\d{3}(?!\d))")
"""Separator of thousands."""

MIN_DETECTED = 0.6
"""Minimum probability of another language."""

MAX_EXPECTED = 0.1
"""Maximum probability of the model's language when another is reported."""

MAX_LISTED = 5
"""Maximum numbers or names in one warning."""


def check_translation(
    translation: Translation, tokenizers: Tokenizers, *, src_lang: str
) -> Translation:
    """Return a translation with a warning for each sign that it is wrong.

    Args:
        translation: the finished translation.
        tokenizers: of the model.
        src_lang: BCP 47 tag of the language that the model translates from.
    """
    warnings = []
    other = find_other_language(translation.src, src_lang)
    if other:
        names = language_name(other), language_name(src_lang)
        warnings.append("the source looks like {}, not {}".format(*names))
    if numbers := find_missing_numbers(translation.src, translation.text):
        warnings.append(f"numbers of the source are missing: {', '.join(numbers[:MAX_LISTED])}")
    if pairs := _changed_names(translation, tokenizers):
        listed = ", ".join(f"{name} to {changed}" for name, changed in pairs[:MAX_LISTED])
        warnings.append(f"names or rare words may have been changed: {listed}")
    return dataclasses.replace(
        translation, warnings=(*translation.warnings, *warnings), detected_language=other
    )


def find_other_language(text: str, src_lang: str) -> str:
    """Return the language of a text of two words or more if it is surely not the expected one."""
    text = PROTECTED.sub(" ", text)
    if len(WORD.findall(text)) < 2 or main_tag(src_lang) not in NAMES:
        return ""
    found = detect_languages(text)
    best = found[0] if found else Detected("", 0.0)
    expected = dict(found).get(main_tag(src_lang), 0.0)
    is_other = best.probability >= MIN_DETECTED and expected < MAX_EXPECTED
    return best.language if is_other and best.language in NAMES else ""


def find_missing_numbers(src: str, text: str) -> list[str]:
    """Return the numbers of a source, in digits, that its translation lacks."""
    kept = set(_numbers(text).values())
    return [digits for digits, number in _numbers(src).items() if number not in kept]


def _numbers(text: str) -> dict[str, int]:
    """Map runs of digits in any script to their values; thousands may be separated."""
    return {digits: int(digits) for digits in re.findall(r"\d+", GROUPED.sub("", text))}


def _changed_names(translation: Translation, tokenizers: Tokenizers) -> list[tuple[str, str]]:
    """Pair names of the source with the words that they became, where the model is unsure."""
    unsure = _unsure_words(translation)
    if not unsure:
        return []
    pairs = [
        pair
        for src, tgt in translation.sentences
        for pair in find_changed_names(
            translation.src[slice(*src)], translation.text[slice(*tgt)], tokenizers.tgt
        )
    ]
    return list(dict.fromkeys(pair for pair in pairs if pair[1] in unsure))


def _unsure_words(translation: Translation) -> set[str]:
    """Return the words of a translation whose mean token probability is below `UNSURE`."""
    shown = [" " if token == "<eos>" else token for token in translation.tgt_tokens]
    numbers = [number for number, token in enumerate(shown) for _ in token]  # of each character
    return {
        match.group()
        for match in WORD.finditer("".join(shown))
        if mean_probability(
            [translation.tgt_log_probs[n] for n in set(numbers[match.start() : match.end()])]
        )
        < UNSURE
    }
