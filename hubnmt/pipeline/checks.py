"""Signs that a translation is wrong: source language, numbers, changed and lost names."""

import dataclasses
import difflib
import functools
import re
import unicodedata
from collections.abc import Container
from typing import Final, NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.text.languages import NAMES, Detected, detect_languages, language_name, main_tag
from hubnmt.text.protected_spans import PROTECTED
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import UNSURE, Translation, mean_probability

WORD = re.compile(r"[^\W\d_]+")
GROUPED = re.compile(
    r"(?<=\d)(?:[.,'’\u00a0\u202f ](?=\d{3}(?!\d))|,(?=(?:\d{2},){1,6}\d{3}(?!\d)))"
)
"""Separator of thousands, or of lakhs before them."""
DIGITS = re.compile(r"\d{1,1000}")
"""Part of a number that `int` reads: Python refuses more than 4,300 digits."""

TIME = re.compile(
    r"(?<![\d.,:])(?P<hour>[01]?\d|2[0-4])"
    r"(?:(?::|\s?h\s?|\.(?=\d\d\s?(?:uhr|[ap]\.?\s?m\b)))(?P<minute>[0-5]\d))?(?![\d:])"
    r"(?:\s?(?:(?P<half>[ap])\.?\s?m\b\.?|(?P<mark>(?:uhr|h|heures?|o['’]clock)\b)))?"
    r"(?:(?<=uhr)\s(?P<after>[0-5]\d)(?!\d))?",
    re.IGNORECASE,
)
"""A time of day if it has minutes or a mark: "15:30", "15.30 Uhr", "15h30", "3:30 p.m."."""

NUMBER_WORDS = {
    "de": "null, ein eins eine einen einem einer eines, zwei, drei, vier, fünf, sechs, sieben, "
    "acht, neun, zehn, elf, zwölf",
    "en": "zero no, one a an once, two twice, three, four, five, six, seven, eight, nine, ten, "
    "eleven, twelve",
    "fr": "zéro, un une, deux, trois, quatre, cinq, six, sept, huit, neuf, dix, onze, douze",
}
"""Words for the numbers from 0 to 12; forms of the same number without a comma between."""

MIN_DETECTED = 0.6
"""Minimum probability of another language."""

MAX_EXPECTED = 0.1
"""Maximum probability of the model's language when another is reported."""

MAX_LISTED = 5
"""Maximum numbers or names in one warning."""

NOUNS_CAPITALISED: Final = ("de", "lb")
"""Languages in which a capital does not distinguish a name from another noun."""
MIN_LETTERS: Final = 4
"""Shorter words are often titles, which are translated."""
MIN_RARE_PIECES: Final = 2
"""Pieces of a name, and of the word that it became; common words have fewer."""
MIN_SIMILARITY: Final = 0.7
"""Ratio of `difflib.SequenceMatcher` of a name and what it became, without regard to case."""
MIN_PIECES_UNMARKED: Final = 4
"""Pieces of both where a capital is no sign of a name."""
COMPOUND: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
"""A word, or several with hyphens between them."""
_NAME: Final = re.compile(r"(?<!['’\w])[^\W\d_]{2,}(?:-[^\W\d_]+)*(?!['’\w])")


def check_translation(
    translation: Translation, tokenizers: Tokenizers, config: ModelConfig
) -> Translation:
    """Return a translation with a warning for each sign that it is wrong."""
    src_lang, tgt_lang = config.src_lang, config.tgt_lang
    warnings = []
    pairs = [
        (translation.src[slice(*src)], translation.text[slice(*tgt)])
        for src, tgt in translation.sentences
    ]
    # 1. The language of the source.
    other = find_other_language(translation.src, src_lang)
    if other:
        names = language_name(other), language_name(src_lang)
        warnings.append("the source looks like {}, not {}".format(*names))
    # 2. Missing numbers.
    numbers = [
        number for src, tgt in pairs for number in find_missing_numbers(src, tgt, tgt_lang=tgt_lang)
    ]
    if numbers:
        warnings.append(f"numbers of the source are missing: {', '.join(numbers[:MAX_LISTED])}")
    # 3. Changed names, if the model is unsure of them.
    unsure = functools.cache(functools.partial(_unsure_words, translation))
    changed = [
        name
        for src, tgt in pairs
        for name in find_changed_names(src, tgt, tokenizers.tgt, capital_is_sign=True)
        if name.word in unsure()
    ]
    if changed:
        listed = ", ".join(f"{name} to {word}" for name, word in changed[:MAX_LISTED])
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


class _Time(NamedTuple):
    """A time of day."""

    text: str
    hour: int
    minute: int
    is_definite: bool
    """Whether it can only be before or only after noon."""

    def agrees(self, other: "_Time") -> bool:
        """Return whether both can be the same time."""
        step = 24 if self.is_definite and other.is_definite else 12
        return self.minute == other.minute and (self.hour - other.hour) % step == 0

    def is_spelled(self, numbers: Container[int]) -> bool:
        """Return whether its hour and minute are among other numbers."""
        has_hour = any(hour in numbers for hour in (self.hour, self.hour % 12))
        return has_hour and (self.minute == 0 or self.minute in numbers)


def find_missing_numbers(src: str, text: str, *, tgt_lang: str) -> list[str]:
    """Return the numbers of a sentence, in digits, that its translation lacks.

    A time of day is one number: "15 Uhr" and "3 p.m." are equal. A number up to twelve may be
    written as a word.
    """
    (src_times, src), (times, text) = _take_times(src), _take_times(text)
    plain = {*_numbers(text).values(), *_spelled_numbers(text, tgt_lang)}
    kept = plain.union(*((time.hour, time.hour % 12, time.minute) for time in times))
    lost = [
        time.text
        for time in src_times
        if not any(map(time.agrees, times)) and not time.is_spelled(plain)
    ]
    return lost + [digits for digits, number in _numbers(src).items() if number not in kept]


def _take_times(text: str) -> tuple[list[_Time], str]:
    times = [_read_time(found) for found in TIME.finditer(text) if _is_time(found)]
    return times, TIME.sub(lambda found: " " if _is_time(found) else found.group(), text)


def _is_time(found: re.Match[str]) -> bool:
    return any(found[name] for name in ("minute", "half", "mark"))


def _read_time(found: re.Match[str]) -> _Time:
    hour, minute = int(found["hour"]) % 24, int(found["minute"] or found["after"] or 0)
    if half := (found["half"] or "").lower():
        hour = hour % 12 + 12 * (half == "p") if hour <= 12 else hour
    is_definite = bool(half) or not 1 <= hour <= 12
    return _Time(found.group().strip(), hour, minute, is_definite)


def _numbers(text: str) -> dict[str, int]:
    return {digits: int(digits) for digits in DIGITS.findall(GROUPED.sub("", text))}


def _spelled_numbers(text: str, language: str) -> set[int]:
    words = set(WORD.findall(text.casefold()))
    numbers = enumerate(NUMBER_WORDS.get(main_tag(language), "").split(","))
    return {number for number, forms in numbers if not words.isdisjoint(forms.split())}


def _unsure_words(translation: Translation) -> set[str]:
    """Return the words of a translation whose mean token probability is below `UNSURE`."""
    shown = [" " if token == "<eos>" else token for token in translation.tgt_tokens]
    indices = [index for index, token in enumerate(shown) for _ in token]  # of each character
    log_probs = translation.tgt_log_probs
    return {
        match.group()
        for match in COMPOUND.finditer("".join(shown))
        if mean_probability([log_probs[n] for n in set(indices[match.start() : match.end()])])
        < UNSURE
    }


class ChangedName(NamedTuple):
    """A word of the source that may be a name, and what it may have become."""

    name: str
    word: str


def find_changed_names(
    src: str,
    tgt: str,
    tokenizer: Tokenizer,
    *,
    capital_is_sign: bool,
) -> list[ChangedName]:
    """Return words of the source that may be names, with the similar target word of each.

    Where a capital within a sentence is no sign of a name, both must be rarer. A word that is the
    name with or without accents is its form in the other language. The target tokenizer counts the
    pieces of a word.
    """
    # 1. Find the words of the source that may be names.
    src_words, tgt_words = (list(dict.fromkeys(COMPOUND.findall(text))) for text in (src, tgt))
    names = [
        word
        for word in src_words
        if len(word) >= MIN_LETTERS
        and word.istitle()
        and word.isalpha()  # "Pre-Olympics" is rather an adjective
        and not contains_word(tgt, word)
    ]
    if not names:
        return []
    # 2. Find the rare words that only the translation has.
    rare = [
        word
        for word in tgt_words
        if word[0].isupper()
        and word not in src_words
        and _n_pieces(word, tokenizer) >= MIN_RARE_PIECES
    ]
    # 3. Pair each name with the most similar of them.
    found = []
    for name in names:
        similarities = [_similarity(name, word) for word in rare]
        similarity = max(similarities, default=0.0)
        if similarity < MIN_SIMILARITY:
            continue
        word = rare[similarities.index(similarity)]
        is_marked = capital_is_sign and name != src_words[0]
        n_pieces = min(_n_pieces(name, tokenizer), _n_pieces(word, tokenizer))
        is_form = name == _without_accents(word) or word == _without_accents(name)
        if (is_marked or n_pieces >= MIN_PIECES_UNMARKED) and not is_form:
            found.append(ChangedName(name, word))
    return found


def find_lost_names(src: str, tgt: str, tokenizer: Tokenizer) -> list[re.Match[str]]:
    """Return the rare capitalised words of the source that the translation lacks.

    A word that is similar to one of the translation is not lost but has another form there. The
    source tokenizer counts the pieces of a word.
    """
    forms = set(COMPOUND.findall(tgt)).difference(COMPOUND.findall(src))
    return [
        match
        for match in _NAME.finditer(src)
        if (word := match.group())[0].isupper()
        and word not in tgt
        and len(word) >= MIN_LETTERS
        and _n_pieces(word, tokenizer) >= MIN_RARE_PIECES
        and not any(_is_form(form, word) for form in forms)
    ]


def _n_pieces(word: str, tokenizer: Tokenizer) -> int:
    return min(len(tokenizer.encode(form)) for form in (word, word.lower()))


def _similarity(name: str, word: str) -> float:
    """Return the similarity of two words, or 0 if it is below `MIN_SIMILARITY`."""
    name, word = (_without_accents(form).lower() for form in (name, word))
    n_shared = min(sum(map(word.__contains__, name)), sum(map(name.__contains__, word)))
    if 2 * n_shared < MIN_SIMILARITY * (len(name) + len(word)):
        return 0.0  # an upper bound
    similarity = difflib.SequenceMatcher(None, name, word).ratio()
    return similarity if similarity >= MIN_SIMILARITY else 0.0


def _is_form(word: str, name: str) -> bool:
    return not name.startswith(word) and _similarity(name, word) >= MIN_SIMILARITY


@functools.lru_cache(maxsize=1024)
def _without_accents(word: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", word) if char.isalpha())


def contains_word(text: str, word: str) -> bool:
    """Return whether a text has a word, in any case."""
    return re.search(whole_word(word), text, re.IGNORECASE) is not None


def whole_word(word: str) -> str:
    """Return the pattern of a word that is no part of a longer one."""
    return rf"(?<![^\W\d_]){re.escape(word)}(?![^\W\d_])"


def main_script(text: str) -> str:
    """Return the most frequent script of a text, as Unicode names its letters."""
    scripts = [unicodedata.name(char, "").split(" ")[0] for char in text if char.isalpha()]
    return max(set(scripts), key=scripts.count, default="")
