"""Signs of degenerate output, and a second search with other settings."""

import dataclasses
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
    *, src: str, src_ids: Sequence[int], text: str, tgt_ids: Sequence[int], max_new_tokens: int = 0
) -> list[str]:
    """Return descriptions of the signs of degenerate output; an empty list if there are none.

    If `max_new_tokens` cut the translation, a short one is expected.
    """
    is_cut = 0 < max_new_tokens <= len(tgt_ids)
    is_short = len(src_ids) >= MIN_SRC_TOKENS and len(tgt_ids) < SHORT_SHARE * len(src_ids)
    signs = {
        "repeats itself": longest_loop(tgt_ids) and not longest_loop(src_ids),
        "copies the source": is_copy(src, text),
        "contains a part of a character": BROKEN in text and BROKEN not in src,
        "is far shorter than the source": is_short and not is_cut,
    }
    return [description for description, applies in signs.items() if applies]


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
    problems = [_find_problems(sentence, decoding) for sentence in sentences]
    pairs = list(zip(sentences, problems, strict=True))
    degenerate = [pair for pair in pairs if pair[1]]
    options = dataclasses.replace(
        decoding,
        sample=False,
        beam_size=decoding.n_best,
        no_repeat_ngram_size=decoding.no_repeat_ngram_size or RETRY_NGRAM_SIZE,
    )
    rows = [sentence.part.ids for sentence, _ in degenerate]
    again = yield from engine.search(rows, options, max_batch_tokens=max_batch_tokens)
    for (sentence, signs), hypotheses in zip(degenerate, again, strict=True):
        description = " and ".join(signs)
        second = dataclasses.replace(sentence, hypotheses=hypotheses)
        sentence.warning = f"the translation {description}"
        if len(_find_problems(second, decoding)) < len(signs):
            sentence.hypotheses, sentence.is_replaced = hypotheses, True
            sentence.warning = (
                f"the first translation {description}: translated again with other settings"
            )
    return [sentence for sentence, signs in pairs if not signs]


def _find_problems(sentence: Sentence, decoding: DecodingConfig) -> list[str]:
    return find_degenerate(
        src=sentence.src,
        src_ids=sentence.part.ids,
        text=sentence.text,
        tgt_ids=sentence.hypotheses[0].ids,
        max_new_tokens=decoding.max_new_tokens or 0,
    )
