"""Replace spans that a translation must copy unchanged by placeholders, in training pairs.

A model that has learned to copy them can translate a text whose spans are restored afterwards.
"""

import random
import re
from collections import Counter
from typing import Final

from hubnmt.text.protected_spans import PLACEHOLDERS, PROTECTED, find_spans
from training.data.cleaning import fingerprint_pair

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_LAST_LATIN: Final = "\u024f"


def protect_pair(src: str, tgt: str, rng: random.Random) -> tuple[str, str]:
    """Return a pair in which spans that both sides share are replaced by placeholders.

    A span is replaced, everywhere, if it occurs equally often on both sides; others stay, as do
    those for which no placeholder is left.

    Args:
        src: source.
        tgt: target.
        rng: chooses the placeholders.
    """
    in_src, in_tgt = Counter(find_spans(src)), Counter(find_spans(tgt))
    shared = [span for span, count in in_src.items() if in_tgt[span] == count]
    free = [mark for mark in PLACEHOLDERS if mark not in src and mark not in tgt]
    marks = dict(zip(shared, rng.sample(free, len(free)), strict=False))

    def replace(text: str) -> str:
        return PROTECTED.sub(lambda match: marks.get(match.group(), match.group()), text)

    return replace(src), replace(tgt)


_ADDED_SHARE: Final = 0.015
"""Share of pairs that receive a placeholder at an end, like an emoji; corpora have few of them."""


def protect_spans(src: str, tgt: str, *, share: float) -> tuple[str, str]:
    """Return a pair with placeholders for the spans that both sides share, or unchanged.

    The choice depends on the pair alone, so it is reproducible.

    Args:
        src: normalised source.
        tgt: normalised target.
        share: share of the pairs to change; a few of them receive a placeholder at an end.
    """
    if not share:  # saves computing the fingerprints
        return src, tgt
    rng = random.Random(fingerprint_pair(src, tgt) + 1)  # not the numbers of `exchange_names`
    if rng.random() < share:
        src, tgt = protect_pair(src, tgt, rng)
        free = [mark for mark in PLACEHOLDERS if mark not in src and mark not in tgt]
        if free and rng.random() < _ADDED_SHARE:
            mark = rng.choice(free)
            is_last = rng.random() < 0.75
            src, tgt = (f"{side} {mark}" if is_last else f"{mark} {side}" for side in (src, tgt))
    return src, tgt


def protect_names(src: str, tgt: str, *, share: float) -> tuple[str, str]:
    """Return a pair with placeholders for the names that both sides share, or unchanged.

    A name is a sequence of capitalised words of Latin letters that occurs equally often on both
    sides. The choice depends on the pair alone, so it is reproducible.

    Args:
        src: normalised source.
        tgt: normalised target.
        share: share of the pairs to change.
    """
    if not share:
        return src, tgt
    rng = random.Random(fingerprint_pair(src, tgt) + 2)  # not the numbers of the other functions
    free = [mark for mark in PLACEHOLDERS if mark not in src and mark not in tgt]
    words = {word for word in _WORD.findall(src) if word.istitle() and max(word) <= _LAST_LATIN}
    words.intersection_update(_WORD.findall(tgt))
    if not words or rng.random() >= share:
        return src, tgt
    word = "|".join(map(re.escape, sorted(words)))
    names = re.compile(rf"\b(?:{word})\b(?: (?:{word})\b)*")
    in_src, in_tgt = Counter(names.findall(src)), Counter(names.findall(tgt))
    shared = [name for name, count in in_src.items() if in_tgt[name] == count]
    marks = dict(zip(shared, rng.sample(free, len(free)), strict=False))

    def replace(text: str) -> str:
        return names.sub(lambda match: marks.get(match.group(), match.group()), text)

    return replace(src), replace(tgt)
