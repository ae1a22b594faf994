"""Limits of the page: length of texts, size of searches, and what may be inspected of a pair.

What exceeds one is an `InputError` with the size, the limit and the remedy.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

from hubnmt.analysis.occlusion import Occlusion, find_words, occlude
from hubnmt.attention.explorer import check_drawable
from hubnmt.attention.maps import Attention
from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.errors import InputError
from hubnmt.pipeline.targets import check_prefix
from hubnmt.translator import Translator
from hubnmt.types import Candidate, PairScore, Translation
from hubnmt.ui.services.turns import TURNS, in_turns

MAX_TEXT_CHARS = 10_000
"""Maximum length of a text, about four printed pages."""

MAX_WORK = 160_000
"""Maximum characters times hypotheses of a search: `MAX_TEXT_CHARS` with a beam of 16."""

N_TOGETHER = 16
"""Batch size for the sentences of a long text."""

MAX_NEW_TOKENS = 512
"""Maximum `max_new_tokens` per sentence."""

MAX_PREFIX_CHARS = 300
"""Maximum length of a forced prefix: a rare word may take one decoding step per character."""

MAX_FILE_CHARS = 1_000_000
"""Maximum length of the translated column of a file."""

MAX_ROW_CHARS, MAX_ROW_WORK = 2_000, 20_000
"""Maximum characters, and characters times hypotheses, of a row, which is translated in one
turn."""

MAX_SCORED_TOKENS = 1_000
"""Maximum tokens per side of a scored pair: bounds the memory of the logits."""

MAX_OCCLUDED_WORDS = 40
"""Maximum words of a sentence for occlusion analysis: each costs one forward pass."""


def check_text(text: Any) -> None:
    """Refuse what is not a string, or is empty or too long."""
    if not isinstance(text, str):
        raise InputError(f"the text must be a string, not {type(text).__name__}")
    if not text.strip():
        raise InputError("there is nothing to translate yet: enter some text first")
    _check_size("the text", len(text), MAX_TEXT_CHARS, "translate it as a file in the tab Files")
    check_characters(text, "the text")


def _check_size(what: str, n_chars: int, most: int, remedy: str) -> None:
    if n_chars > most:
        raise InputError(f"{what} has {n_chars:,} characters; the limit is {most:,}; {remedy}")


def check_characters(text: str, name: str) -> None:
    """Refuse unpaired surrogates, which JSON can express and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} contains an unpaired surrogate, which is not a valid character; remove it"
        ) from None


def check_search(text: str, decoding: DecodingConfig, prefix: str = "") -> None:
    """Refuse options and a forced prefix that exceed a limit."""
    if (decoding.max_new_tokens or 0) > MAX_NEW_TOKENS:
        raise InputError(
            f"max_new_tokens = {decoding.max_new_tokens} exceeds this page's limit of "
            f"{MAX_NEW_TOKENS} tokens per sentence"
        )
    check_prefix(prefix)
    _check_size("the forced prefix", len(prefix), MAX_PREFIX_CHARS, "shorten it")
    check_characters(prefix, "the forced prefix")
    most = MAX_WORK // count_hypotheses(decoding)
    _check_size("the text", len(text), most, "split it, or reduce beam_size")


def count_hypotheses(decoding: DecodingConfig) -> int:
    """Return the number of hypotheses of a search."""
    return decoding.n_best if decoding.sample else decoding.beam_size


def check_rows(rows: Sequence[str], decoding: DecodingConfig) -> None:
    """Refuse a column of a file that exceeds a limit, naming the row."""
    _check_size("the column", sum(map(len, rows)), MAX_FILE_CHARS, "split the file")
    check_search("", decoding)
    most = min(MAX_ROW_CHARS, MAX_ROW_WORK // count_hypotheses(decoding))
    remedy = "put one sentence or paragraph on each line, or reduce beam_size"
    for number, row in enumerate(rows, 1):
        _check_size(f"row {number:,}", len(row), most, remedy)


def attend(translator: Translator, text: str, translation: str) -> Attention:
    """Compute the attention of a pair; an empty translation is replaced by the model's own."""
    check_text(text)
    if translation == "":
        check_search(text, translator.decoding)
        translation = run_search(in_turns(translator.stream(text, n_together=N_TOGETHER))).text
    else:
        check_text(translation)
    check_drawable(*_count_tokens(translator, text, translation), translator.config)
    with TURNS.turn():
        return translator.attend(text, translation)


def attend_candidate(translator: Translator, src: str, candidate: Candidate) -> Attention:
    """Compute the attention of one sentence with the candidate's original tokenization."""
    n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
    check_drawable(n_src_tokens, len(candidate.tgt_ids[0]) + 1, translator.config)
    with TURNS.turn():
        return translator.attend(src, candidate, split=False)


def align(translator: Translator, translation: Translation) -> list[dict[str, Any]]:
    """Align the words of a translation; sentences too long to display have no links.

    Sentences are aligned one by one, because the maps of a whole text are quadratic in its length.
    """
    links = []
    rows = translation.n_best[0].tgt_ids
    for (src, tgt), row in zip(translation.sentences, rows, strict=True):
        candidate = Candidate(translation.text[slice(*tgt)], 0.0, (row,))
        with contextlib.suppress(InputError):
            maps = attend_candidate(translator, translation.src[slice(*src)], candidate)
            links += list_links(maps)
    return links


def list_links(maps: Attention) -> list[dict[str, Any]]:
    """Return the word alignment as source word, target word and attention weight."""
    return [
        {
            "src": maps.src.text[slice(*link.src)],
            "tgt": maps.tgt.text[slice(*link.tgt)],
            "weight": round(link.weight, 4),
        }
        for link in maps.word_alignment()
    ]


def occlude_words(translator: Translator, src: str, candidate: Candidate) -> Occlusion | None:
    """Run occlusion analysis; None for one word or more than `MAX_OCCLUDED_WORDS`."""
    n_words = len(find_words(translator, src).tokens)
    if not 2 <= n_words <= MAX_OCCLUDED_WORDS:
        return None
    with TURNS.turn():
        return occlude(translator, src, candidate)


def score(translator: Translator, src: str, tgt: str) -> PairScore:
    """Score a given translation."""
    check_text(src)
    check_text(tgt)
    n_tokens = max(_count_tokens(translator, src, tgt))
    if n_tokens > MAX_SCORED_TOKENS:
        raise InputError(
            f"too long to score: {n_tokens:,} tokens; the limit is {MAX_SCORED_TOKENS:,}; "
            "score one sentence at a time"
        )
    with TURNS.turn():
        return translator.score(src, tgt)


def _count_tokens(translator: Translator, src: str, tgt: str) -> tuple[int, int]:
    n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
    return n_src_tokens, len(translator.tokenizers.tgt.encode(tgt)) + 1
