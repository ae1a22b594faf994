"""Augmentation of training pairs: casual spelling, other names and numbers, placeholders.

Corpora consist of well-formed sentences, but users type "guten morgen"; a small corpus has few
names, so a model replaces unknown ones with known ones; and a model must learn to copy the
placeholders of protected spans. All choices depend on the pair alone, so they are reproducible.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hubnmt.text.protected_spans import PLACEHOLDERS, PROTECTED
from training.config.data import DataConfig
from training.data.cleaning import fingerprint_pair

FINAL_MARK: Final = re.compile(r"\s*[.!?…。！？।؟]+$")
_HALF: Final = 1 << 32
_LAST_LATIN: Final = "\u024f"
_NUMBER: Final = re.compile(r"(?<!\w)[0-9]+(?!\w)")
_WORD: Final = re.compile(r"[^\W\d_]+")
_INSIDE: Final = re.compile(r"[^\W_],? $")
"""Context before a word inside a sentence, where a capital is not due to the position."""
_SHORTEST_NAME: Final = 3
_YEAR_DIGITS: Final = 4
_ONSETS: Final = [
    "",
    "b",
    "br",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "sch",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
]
_VOWELS: Final = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ie", "ei", "au"]
_CODAS: Final = ["", "", "", "", "", "l", "m", "n", "r", "s", "t", "ck"]
_ADDED_SHARE: Final = 0.015
"""Share of pairs that receive a placeholder at an end, like an emoji; corpora have few of them."""


def augment(src: str, tgt: str, config: DataConfig) -> tuple[str, str]:
    """Return a normalised pair with the changes that a recipe asks for, or unchanged.

    Each change has random numbers of its own, seeded with the pair.
    """
    changes = (
        (config.protect_spans, protect_spans, 1),
        (config.protect_names, protect_names, 2),
        (config.vary_names, exchange_names, 0),
    )
    for share, change, offset in changes:
        if share:  # saves computing the fingerprints
            rng = random.Random(fingerprint_pair(src, tgt) + offset)
            if rng.random() < share:
                src, tgt = change(src, tgt, rng)
    first, second = (part / _HALF for part in divmod(fingerprint_pair(src, tgt) % _HALF**2, _HALF))
    if first < config.drop_final_mark:
        src, tgt = drop_final_marks(src, tgt)
    return (src.lower() if second < config.lowercase_src else src), tgt


def drop_final_marks(src: str, tgt: str) -> tuple[str, str]:
    """Return a pair without final punctuation, or unchanged if a side has none, or nothing else."""
    bare = FINAL_MARK.sub("", src), FINAL_MARK.sub("", tgt)
    return bare if all(bare) and bare[0] != src and bare[1] != tgt else (src, tgt)


def _shared(in_src: Iterable[str], in_tgt: Iterable[str]) -> list[str]:
    counts = Counter(in_tgt)
    return [text for text, count in Counter(in_src).items() if counts[text] == count]


# --- placeholders --------------------------------------------------------------------------------


def protect_pair(src: str, tgt: str, rng: random.Random) -> tuple[str, str]:
    """Return a pair in which the spans that occur equally often on both sides are placeholders."""
    return _put_placeholders(src, tgt, PROTECTED, rng)


def _put_placeholders(
    src: str, tgt: str, pattern: re.Pattern[str], rng: random.Random
) -> tuple[str, str]:
    free = _free_placeholders(src, tgt)
    shared = _shared(pattern.findall(src), pattern.findall(tgt))
    placeholders = dict(zip(shared, rng.sample(free, len(free)), strict=False))

    def replace(text: str) -> str:
        return pattern.sub(lambda match: placeholders.get(match.group(), match.group()), text)

    return replace(src), replace(tgt)


def _free_placeholders(src: str, tgt: str) -> list[str]:
    return [mark for mark in PLACEHOLDERS if mark not in src and mark not in tgt]


def protect_spans(src: str, tgt: str, rng: random.Random) -> tuple[str, str]:
    """Return a pair with placeholders for the spans that both sides share, and a few at an end."""
    src, tgt = protect_pair(src, tgt, rng)
    free = _free_placeholders(src, tgt)
    if free and rng.random() < _ADDED_SHARE:
        mark = rng.choice(free)
        is_last = rng.random() < 0.75
        src, tgt = (f"{side} {mark}" if is_last else f"{mark} {side}" for side in (src, tgt))
    return src, tgt


def protect_names(src: str, tgt: str, rng: random.Random) -> tuple[str, str]:
    """Return a pair with placeholders for the names that both sides share.

    A name is a sequence of capitalised words of Latin letters that occurs equally often on both
    sides.
    """
    words = {word for word in _WORD.findall(src) if len(word) > 1 and _is_latin_title(word)}
    words.intersection_update(_WORD.findall(tgt))
    if not words:
        return src, tgt
    word = "|".join(map(re.escape, sorted(words)))
    names = re.compile(rf"\b(?:{word})\b(?: (?:{word})\b)*")
    return _put_placeholders(src, tgt, names, rng)


def _is_latin_title(word: str) -> bool:
    return word.istitle() and max(word) <= _LAST_LATIN


# --- names and numbers ---------------------------------------------------------------------------


def exchange_names(src: str, tgt: str, rng: random.Random) -> tuple[str, str]:
    """Return a pair with its names and numbers replaced on both sides.

    A number is a separate sequence of digits that occurs equally often on both sides; "1" is kept,
    because it determines the grammatical number. A name is a capitalised word of Latin letters that
    occurs equally often on both sides, at least once inside a sentence. Random names can only be
    copied; Currey et al. 2017 show that copied data improves the translation of names,
    https://aclanthology.org/W17-4715/
    """
    numbers, words = (
        sorted(_shared(pattern.findall(src), pattern.findall(tgt))) for pattern in (_NUMBER, _WORD)
    )
    inside = _words_inside(src) | _words_inside(tgt)
    others = {number: _make_number(number, rng) for number in numbers if number != "1"}
    others |= {
        word: make_name(rng)
        for word in words
        if word in inside and len(word) >= _SHORTEST_NAME and _is_latin_title(word)
    }
    return _exchange(src, others), _exchange(tgt, others)


def _words_inside(text: str) -> set[str]:
    return {
        match.group()
        for match in _WORD.finditer(text)
        if _INSIDE.search(text, max(match.start() - 3, 0), match.start())
    }


def _exchange(text: str, others: dict[str, str]) -> str:
    for pattern in (_NUMBER, _WORD):
        text = pattern.sub(lambda match: others.get(match.group(), match.group()), text)
    return text


def _make_number(number: str, rng: random.Random) -> str:
    stays = number[0] == "0" or len(number) == _YEAR_DIGITS
    first = number[0] if stays else _pick("23456789", rng)
    return first + "".join(_pick("0123456789", rng) for _ in number[1:])


def make_name(rng: random.Random) -> str:
    """Return a random name of two or three syllables."""
    n_syllables = 2 if rng.random() < 2 / 3 else 3
    parts = (_ONSETS, _VOWELS, _CODAS) * n_syllables
    return "".join(_pick(part, rng) for part in parts).title()


def _pick(choices: Sequence[str], rng: random.Random) -> str:
    return choices[int(rng.random() * len(choices))]
