"""Names and numbers that both sides spell alike, exchanged for made-up ones.

Takes a clean pair, gives it back or changed. Must not know where pairs come from. A small corpus
has few names, and a model of it turns one that it never met into one it knows; where they change
from pair to pair, there is nothing to learn but to copy them. Which pairs are changed and how hangs
on the pair alone, so that it is the same on every machine and in every start. Source: that examples
of copying teach to copy names is shown by Currey et al. 2017, https://aclanthology.org/W17-4715/
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
"""What stands in front of a word in the middle of a sentence, where a capital means something."""
_LAST_LATIN: Final = "\u024f"
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


def exchange_names(src: str, tgt: str, *, share: float) -> tuple[str, str]:
    """Return a pair with other names and numbers on both sides, or as it is.

    A number is a run of digits that stands free on both sides, equally often; "1" stays, for the
    words around it count. A name is a word of Latin letters that both sides write with a capital,
    equally often, and one of them in the middle of a sentence.

    Args:
        src: tidy source.
        tgt: tidy target.
        share: of the pairs that have any.
    """
    if not share:  # most recipes: millions of pairs are spared their fingerprint
        return src, tgt
    rng = random.Random(fingerprint_pair(src, tgt))
    if rng.random() >= share:
        return src, tgt
    numbers = [number for number in _shared(_NUMBER, src, tgt) if number != "1"]
    inside = _words_inside(src) | _words_inside(tgt)
    names = [word for word in _shared(_WORD, src, tgt) if word in inside and _may_be_name(word)]
    others = {number: _make_number(number, rng) for number in numbers}
    others |= {name: _make_name(rng) for name in names}
    return _exchange(src, others), _exchange(tgt, others)


def _shared(pattern: re.Pattern[str], src: str, tgt: str) -> list[str]:
    """List what both sides have equally often, in an order that is the same in every process."""
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
    """Make one of as many digits; what may be a year stays in its millennium."""
    stays = number[0] == "0" or len(number) == _YEAR_DIGITS
    first = number[0] if stays else _pick("23456789", rng)
    return first + "".join(_pick("0123456789", rng) for _ in number[1:])


def _make_name(rng: random.Random) -> str:
    n_syllables = 2 if rng.random() < 2 / 3 else 3
    parts = (_ONSETS, _VOWELS, _CODAS) * n_syllables
    return "".join(_pick(part, rng) for part in parts).title()


def _pick(choices: Sequence[str], rng: random.Random) -> str:
    return choices[int(rng.random() * len(choices))]
