"""A second try for translations that look wrong.

Takes parts with their hypotheses and a search, gives hypotheses and what to say about some. Must
not know what runs the search. What looks wrong is `guard`'s to say; here it is searched once more
with other settings, and whichever looks less wrong is kept.
"""

import dataclasses
import math
from collections.abc import Callable, Generator, Sequence

from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis, Search
from hubnmt.text.tokenizer import Tokenizer

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


RETRY_BEAM_SIZE = 8
RETRY_NGRAM_SIZE = 3
"""A second try looks wider and forbids what loops are made of; all else is as the user set it."""

StartSearch = Callable[[Sequence[Sequence[int]], DecodingConfig], Search]
"""Rows of source ids to the search of their hypotheses."""


def retry_options(decoding: DecodingConfig) -> DecodingConfig:
    """Choose the options of the second try."""
    return dataclasses.replace(
        decoding,
        sample=False,
        beam_size=max(decoding.beam_size, decoding.n_best, RETRY_BEAM_SIZE),
        no_repeat_ngram_size=decoding.no_repeat_ngram_size or RETRY_NGRAM_SIZE,
    )


def fallback_search(
    rows: Sequence[Sequence[int]],
    found: Sequence[list[Hypothesis]],
    decoding: DecodingConfig,
    search: StartSearch,
    *,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
) -> Generator[list[int], None, tuple[list[list[Hypothesis]], list[str]]]:
    """Retry what looks wrong once; keep whichever looks less wrong.

    Yields:
        what the search yields.

    Returns:
        for each row its hypotheses, and a note for the reader, empty where all is well.
    """

    def suspect(row: Sequence[int], hypothesis: Hypothesis) -> list[str]:
        return find_degenerate(
            src=src_tokenizer.decode(row),
            src_ids=row,
            text=tgt_tokenizer.decode(hypothesis.ids),
            tgt_ids=hypothesis.ids,
            is_cut=len(hypothesis.ids) >= (decoding.max_new_tokens or math.inf),
        )

    first = [suspect(row, best) for row, (best, *_) in zip(rows, found, strict=True)]
    kept, notes = list(found), [""] * len(rows)
    doubtful = [number for number, suspicions in enumerate(first) if suspicions]
    if not doubtful:
        return kept, notes
    again = yield from search([rows[number] for number in doubtful], retry_options(decoding))
    for number, second in zip(doubtful, again, strict=True):
        said = " and ".join(first[number])
        if len(suspect(rows[number], second[0])) < len(first[number]):
            kept[number] = second
            notes[number] = f"the first try {said}: translated again with other settings"
        else:
            notes[number] = f"the translation {said}"
    return kept, notes
