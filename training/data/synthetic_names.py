"""Data augmentation that replaces names and numbers shared by both sides with random ones.

A small corpus has few names, and a model trained on it replaces unknown names with known ones;
random names can only be copied. The choice depends on the pair alone, so it is reproducible.
Source: Currey et al. 2017 show that copied data improves the translation of names,
https://aclanthology.org/W17-4715/
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from training.data.cleaning import fingerprint_pair

_NUMBER: Final = re.compile(r"(?<!\w)[0-9]+(?!\w)")
_WORD: Final = re.compile(r"[^\W\d_]+")
_INSIDE: Final = re.compile(r"[^\W_],? $")
"""Context before a word inside a sentence, where a capital is not due to the position."""
_LAST_LATIN: Final = "\u024f"
_SHORTEST_NAME: Final = 3
_YEAR_DIGITS: Final = 4
_ONSETS: Final = [
    *("", "b", "br", "d", "f", "g", "h", "j", "k", "kl", "l", "m"),
    *("n", "p", "r", "s", "sch", "st", "t", "tr", "v", "w", "z"),
]
_VOWELS: Final = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ie", "ei", "au"]
_CODAS: Final = ["", "", "", "", "", "l", "m", "n", "r", "s", "t", "ck"]


def exchange_names(src: str, tgt: str, *, share: float) -> tuple[str, str]:
    """Return a pair with its names and numbers replaced on both sides, or unchanged.

    A number is a separate sequence of digits that occurs equally often on both sides; "1" is kept,
    because it determines the grammatical number. A name is a capitalised word of Latin letters that
    occurs equally often on both sides, at least once inside a sentence.
    """
    if not share:  # saves computing the fingerprints
        return src, tgt
    rng = random.Random(fingerprint_pair(src, tgt))
    if rng.random() >= share:
        return src, tgt
    numbers = [number for number in _shared(_NUMBER, src, tgt) if number != "1"]
    inside = _words_inside(src) | _words_inside(tgt)
    names = [word for word in _shared(_WORD, src, tgt) if word in inside and _may_be_name(word)]
    others = {number: _make_number(number, rng) for number in numbers}
    others |= {name: make_name(rng) for name in names}
    return _exchange(src, others), _exchange(tgt, others)


def _shared(pattern: re.Pattern[str], src: str, tgt: str) -> list[str]:
    """Return the matches that occur equally often on both sides, sorted."""
    in_src, in_tgt = (Counter(pattern.findall(side)) for side in (src, tgt))
    return sorted(found for found, count in in_src.items() if in_tgt[found] == count)


def _words_inside(text: str) -> set[str]:
    return {
        match.group()
        for match in _WORD.finditer(text)
        if _INSIDE.search(text, max(match.start() - 3, 0), match.start())
    }


def _may_be_name(word: str) -> bool:
    return len(word) >= _SHORTEST_NAME and word.istitle() and max(word) <= _LAST_LATIN


def _exchange(text: str, others: dict[str, str]) -> str:
    for pattern in (_NUMBER, _WORD):
        text = pattern.sub(lambda match: others.get(match.group(), match.group()), text)
    return text


def _make_number(number: str, rng: random.Random) -> str:
    """Return a random number of the same length; a possible year keeps its first digit."""
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
