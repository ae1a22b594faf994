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
from hubnmt.pipeline.heuristics import find_degenerate
from hubnmt.text.tokenizer import Tokenizer

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
