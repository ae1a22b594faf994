"""Replace spans that a translation must copy unchanged by placeholders, in training pairs.

The placeholders are characters of the private use area of Unicode, which no text contains. A
model that has learned to copy them can translate a text whose spans are restored afterwards.
"""

import random
import re
from collections import Counter
from typing import Final

from training.data.cleaning import fingerprint_pair

PLACEHOLDERS: Final = tuple(chr(0xE000 + number) for number in range(8))
"""U+E000 to U+E007; a pair can have no more protected spans than these."""

_EMOJI: Final = "\U0001f300-\U0001faff\u2600-\u27bf\U0001f1e6-\U0001f1ff"
PROTECTED: Final = re.compile(
    rf"""
    `[^`\n]+`                                               # code
    | (?:https?://|www\.)[^\s<>"]+[^\s<>".,;:!?)\]]         # URL
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                          # e-mail address
    | (?<![\w@])[@\#]\w[\w.]*\w                             # handle, tag
    | [{_EMOJI}][{_EMOJI}\ufe0f\u200d]*                     # emoji, joined or in sequence
    | \b\d{{1,2}}:\d{{2}}(?::\d{{2}})?\b                    # time
    | \b\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}}\b             # date
    | \b[A-Z]{{1,4}}-?\d{{2,}}[\w-]*\b                      # code, such as LH456
    | \b\d(?:[.,]?\d){{2,}}\b                               # number of three digits or more
    """,
    re.VERBOSE,
)
"""Spans that are usually the same in every language."""


def find_spans(text: str) -> list[str]:
    """Return the protected spans of a text in order, with repetitions."""
    return PROTECTED.findall(text)


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
