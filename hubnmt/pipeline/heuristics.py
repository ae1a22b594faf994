"""Suspicions about a translation: loops, copies of the source, dropped text.

Takes ids and texts, gives short reasons. Pure: must not know the model. Every rule is made to stay
silent on good translations; what they catch is worth a second try with other settings, or at least
a warning.
"""

from collections.abc import Sequence

MIN_REPEATS = 4
"""The same stretch this often in a row is a loop ..."""
MIN_LOOP_TOKENS = 8
"""... if it fills at least this many tokens: "ha ha ha ha" may be meant."""
MAX_PERIOD = 8
"""Longest repeated stretch looked for, tokens."""
MIN_COPIED_WORDS = 4
"""Shorter copies are names, numbers and cognates."""
MIN_SRC_TOKENS = 12
"""Sources shorter than this may well have a one-word translation."""
SHORT_SHARE = 0.3
"""A target with less than this share of the source's tokens has dropped something."""


def longest_loop(ids: Sequence[int]) -> int:
    """Measure the longest stretch that repeats itself at once, in tokens; 0 if there is none."""
    longest = 0
    for period in range(1, min(MAX_PERIOD, len(ids) // MIN_REPEATS) + 1):
        run = 0
        for position in range(period, len(ids)):
            run = run + 1 if ids[position] == ids[position - period] else 0
            if run + period >= MIN_REPEATS * period:
                longest = max(longest, run + period)
    return longest if longest >= MIN_LOOP_TOKENS else 0


def is_copy(src: str, text: str) -> bool:
    """Tell whether a translation is its source, word for word."""
    words = src.casefold().split()
    return len(words) >= MIN_COPIED_WORDS and words == text.casefold().split()


def find_degenerate(
    *,
    src: str,
    src_ids: Sequence[int],
    text: str,
    tgt_ids: Sequence[int],
    is_cut: bool = False,
) -> list[str]:
    """Name what is wrong with a translation at first sight; an empty list if nothing is.

    Args:
        src: source text of one part.
        src_ids: its tokens.
        text: the translation.
        tgt_ids: its tokens.
        is_cut: the user asked for so few tokens, so being short is no fault.
    """
    suspicions = []
    if longest_loop(tgt_ids) and not longest_loop(src_ids):
        suspicions.append("repeats itself")
    if is_copy(src, text):
        suspicions.append("copies the source")
    if not is_cut and len(src_ids) >= MIN_SRC_TOKENS and len(tgt_ids) < SHORT_SHARE * len(src_ids):
        suspicions.append("is far shorter than the source")
    return suspicions
