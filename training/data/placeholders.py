"""Replace spans that a translation must copy unchanged by placeholders, in training pairs.

A model that has learned to copy them can translate a text whose spans are restored afterwards.
"""

import random
from collections import Counter
from typing import Final

from hubnmt.text.protected_spans import PLACEHOLDERS, PROTECTED, find_spans
from training.data.cleaning import fingerprint_pair


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
