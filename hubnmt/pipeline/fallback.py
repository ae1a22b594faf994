"""Signs of degenerate output, and a second search with other settings."""

import dataclasses
import math
from collections.abc import Generator, Sequence

from hubnmt.config import DecodingConfig
from hubnmt.pipeline.draft import Engine, Sentence

MIN_REPEATS = 4
"""Consecutive repetitions that count as a loop ..."""
MIN_LOOP_TOKENS = 8
"""... if they span at least this many tokens: "ha ha ha ha" may be intended."""
MAX_PERIOD = 8
"""Longest repeated sequence considered, tokens."""
MIN_COPIED_WORDS = 4
"""Shorter copies are names, numbers and cognates."""
MIN_SRC_TOKENS = 12
"""Shorter sources may legitimately have a one-word translation, tokens."""
BROKEN = "\N{REPLACEMENT CHARACTER}"
"""Decoded in place of bytes that are not valid UTF-8."""
SHORT_SHARE = 0.3
"""Smallest plausible ratio of target to source tokens."""
RETRY_NGRAM_SIZE = 3
"""Length of the n-grams that the second search does not repeat, tokens."""


def longest_loop(ids: Sequence[int]) -> int:
    """Return the length of the longest loop (repeated n-gram), tokens; 0 if there is none."""
    longest = 0
    for period in range(1, min(MAX_PERIOD, len(ids) // MIN_REPEATS) + 1):
        run = 0
        for position in range(period, len(ids)):
            run = run + 1 if ids[position] == ids[position - period] else 0
            if run + period >= MIN_REPEATS * period:
                longest = max(longest, run + period)
    return longest if longest >= MIN_LOOP_TOKENS else 0


def is_copy(src: str, text: str) -> bool:
    """Return whether a translation equals its source, ignoring case."""
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
    """Return descriptions of the signs of degenerate output; an empty list if there are none.

    If `max_new_tokens` cut the translation, a short one is expected.
    """
    problems = []
    if longest_loop(tgt_ids) and not longest_loop(src_ids):
        problems.append("repeats itself")
    if is_copy(src, text):
        problems.append("copies the source")
    if BROKEN in text and BROKEN not in src:
        problems.append("contains a part of a character")
    if not is_cut and len(src_ids) >= MIN_SRC_TOKENS and len(tgt_ids) < SHORT_SHARE * len(src_ids):
        problems.append("is far shorter than the source")
    return problems


def retry_degenerate(
    sentences: Sequence[Sentence],
    decoding: DecodingConfig,
    engine: Engine,
    *,
    max_batch_tokens: int,
) -> Generator[list[int], None, list[Sentence]]:
    """Decode degenerate sentences with other settings, and keep results with fewer problems.

    Args:
        sentences: with their hypotheses; without a forced prefix.
        decoding: options of the first search.
        engine: searches again, greedily if one hypothesis is wanted, without repeated n-grams.
        max_batch_tokens: see `TorchEngine.search`.

    Returns:
        after the steps of the search, the other sentences.
    """
    judged = [(sentence, _find_problems(sentence, decoding)) for sentence in sentences]
    degenerate = [(sentence, problems) for sentence, problems in judged if problems]
    options = dataclasses.replace(
        decoding,
        sample=False,
        beam_size=decoding.n_best,
        no_repeat_ngram_size=decoding.no_repeat_ngram_size or RETRY_NGRAM_SIZE,
    )
    rows = [sentence.part.ids for sentence, _ in degenerate]
    again = yield from engine.search(rows, options, max_batch_tokens=max_batch_tokens)
    for (sentence, problems), hypotheses in zip(degenerate, again, strict=True):
        description = " and ".join(problems)
        second = dataclasses.replace(sentence, hypotheses=hypotheses)
        sentence.is_replaced = len(_find_problems(second, decoding)) < len(problems)
        if sentence.is_replaced:
            sentence.hypotheses = hypotheses
            sentence.warning = (
                f"the first translation {description}: translated again with other settings"
            )
        else:
            sentence.warning = f"the translation {description}"
    return [sentence for sentence, problems in judged if not problems]


def _find_problems(sentence: Sentence, decoding: DecodingConfig) -> list[str]:
    best = sentence.hypotheses[0]
    return find_degenerate(
        src=sentence.src,
        src_ids=sentence.part.ids,
        text=sentence.text,
        tgt_ids=best.ids,
        is_cut=len(best.ids) >= (decoding.max_new_tokens or math.inf),
    )
