"""Admission limits of the shared page: text length, estimated cost, and size of inspected pairs."""

import contextlib
import time
import weakref
from collections.abc import Sequence
from typing import Any

from hubnmt.analysis.occlusion import Occlusion, find_words, occlude
from hubnmt.attention.explorer import check_drawable
from hubnmt.attention.maps import Attention
from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.errors import InputError
from hubnmt.inference.engine import max_tgt_tokens
from hubnmt.pipeline.fallback import retry_options
from hubnmt.pipeline.prefix import check_prefix
from hubnmt.pipeline.protection import unprotect
from hubnmt.pipeline.segmentation import make_plan
from hubnmt.translator import Translator
from hubnmt.types import Candidate, PairScore, Translation
from hubnmt.ui.services.scheduler import in_turns, model_turn

MAX_TEXT_CHARS = 10_000
"""Maximum length of a text, about four printed pages."""

MAX_WORK = 128_000
"""Maximum tokens times hypotheses per request, including fallback decoding: 4,000 tokens with beam
size 16. Text in a script unseen by the tokenizer splits into far more tokens than usual. On slower
machines or models the limit is lower: see `find_max_work`."""

MIN_WORK = 40_000
"""Lower bound of the limit for the initial search, about 10,000 characters with beam size 16: a
machine that was busy during the measurement must not refuse ordinary text."""

MAX_SECONDS = 2.0
"""Maximum estimated model time of one request."""

SPEED_SAMPLE = "My sister lives in London, and on Sunday she is coming to see us.\n" * 32
"""Text for the speed measurement: 32 sentences, decoded as one batch."""

SPEED_TOKENS = 8
"""Tokens generated per sentence of the sample."""

MAX_CORRECTION = 1.5
"""Maximum factor by which one request raises the speed: a translation may end early."""

SPEED_ROUNDS = 2
"""Measurement runs; the fastest counts, which excludes warm-up."""

INSPECT_SECONDS = 0.2
"""Estimated upper bound of scoring a pair or computing its attention, given the limits below."""

CHECK_SECONDS = 0.05
"""Estimated time to tokenize a text of `MAX_TEXT_CHARS`."""

N_TOGETHER = 32
"""Batch size for the sentences of a long text."""

MAX_FILE_WORK = 8_000_000
"""Maximum tokens times hypotheses of a file: `MAX_FILE_CHARS` of ordinary text with a beam of 16,
which takes ten minutes."""

MAX_NEW_TOKENS = 512
"""Maximum `max_new_tokens` per sentence."""

MAX_PREFIX_CHARS = 300
"""Maximum length of a forced prefix: a rare word may take one decoding step per character."""

MAX_FILE_CHARS = 1_000_000
"""Maximum length of the translated column of a file."""

MAX_ROW_CHARS = 2_000
"""Maximum length of a row: jobs can only be cancelled between chunks of rows."""

MAX_SCORED_TOKENS = 1_000
"""Maximum tokens per side of a scored pair: bounds the memory of the logits."""

MAX_OCCLUDED_WORDS = 40
"""Maximum words of a sentence for occlusion analysis: each costs one forward pass."""


def check_text(text: Any) -> None:
    """Validate that a value is a non-empty string within the length limit.

    Raises:
        InputError: with the remedy.
    """
    if not isinstance(text, str):
        raise InputError(f"the text must be a string, not {type(text).__name__}")
    if not text.strip():
        raise InputError("there is nothing to translate yet: enter some text first")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"the text has {len(text):,} characters; the limit is {MAX_TEXT_CHARS:,}; "
            "split it, or use the command: hubnmt translate --input FILE"
        )
    check_characters(text, "the text")


def check_characters(text: str, name: str) -> None:
    """Refuse unpaired surrogates, which JSON can express and UTF-8 cannot.

    Raises:
        InputError: naming the field.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} contains an unpaired surrogate, which is not a valid character; remove it"
        ) from None


_SPEEDS: "weakref.WeakKeyDictionary[Translator, float]" = weakref.WeakKeyDictionary()


def has_speed(translator: Translator) -> bool:
    """Return whether a model's speed on this machine has been measured."""
    return translator in _SPEEDS


def measure_speed(translator: Translator) -> float:
    """Measure a model's speed on this machine, in tokens times hypotheses per second.

    Each sentence is decoded for `SPEED_TOKENS` steps; only these are counted.
    """
    if translator not in _SPEEDS:
        decoding = translator.decoding
        n_tokens = SPEED_TOKENS * SPEED_SAMPLE.count("\n")
        seconds = []
        for _ in range(SPEED_ROUNDS):
            started = time.perf_counter()
            translator.translate(SPEED_SAMPLE, guard=False, max_new_tokens=SPEED_TOKENS)
            seconds.append(time.perf_counter() - started)
        _SPEEDS[translator] = n_tokens * _search_width(decoding) / max(min(seconds), 1e-9)
    return _SPEEDS[translator]


def note_speed(translator: Translator, cost_s: float, seconds: float) -> None:
    """Raise a model's measured speed after a request that was faster than estimated.

    Args:
        translator: the model.
        cost_s: estimated duration, without options.
        seconds: actual duration, including waiting time.
    """
    if cost_s > seconds > 0:
        _SPEEDS[translator] *= min(cost_s / seconds, MAX_CORRECTION)


def find_max_work(translator: Translator) -> int:
    """Return the maximum tokens times hypotheses of a request's initial search."""
    measured = int(MAX_SECONDS * measure_speed(translator))
    return min(max(measured, MIN_WORK), MAX_WORK)


def check_work(
    translator: Translator, text: str, decoding: DecodingConfig, prefix: str = ""
) -> float:
    """Refuse a request whose estimated cost exceeds the limit.

    Returns:
        estimated duration in seconds.

    Raises:
        InputError: with the size and the limit.
    """
    _check_options(decoding)
    check_prefix(prefix)
    if len(prefix) > MAX_PREFIX_CHARS:
        raise InputError(
            f"the forced prefix has {len(prefix):,} characters; the limit is {MAX_PREFIX_CHARS:,}"
        )
    check_characters(prefix, "the forced prefix")
    n_prefix = len(prefix.encode())  # at most one token per byte
    n_tokens = n_prefix + _max_tokens(translator, text, decoding)
    _check_request("the text", n_tokens, translator, decoding)
    return n_tokens * _search_width(decoding) / measure_speed(translator)


def _check_options(decoding: DecodingConfig) -> None:
    """Check decoding options against the page's limits.

    Raises:
        InputError: with the size and the limit.
    """
    if (decoding.max_new_tokens or 0) > MAX_NEW_TOKENS:
        raise InputError(
            f"max_new_tokens = {decoding.max_new_tokens} exceeds this page's limit of "
            f"{MAX_NEW_TOKENS} tokens per sentence"
        )


def _max_tokens(translator: Translator, text: str, decoding: DecodingConfig) -> int:
    """Return the source tokens of a text plus an upper bound of its target tokens.

    Beam search with the default length limit is assumed to end near the source length and adds
    nothing. Sampling may run up to its limit: at a high temperature eos may never be drawn.
    """
    plan = make_plan(
        text,
        translator.tokenizers.src,
        language=translator.config.src_lang,
        max_src_tokens=translator.config.max_src_tokens,
    )
    # A sentence whose protected spans are lost is translated again with them as text.
    sizes = [len(unprotect(part, translator.tokenizers.src).ids) for part in plan.translatable]
    is_open = decoding.sample or decoding.max_new_tokens is not None
    return sum(sizes) + sum(max_tgt_tokens(size, decoding) for size in sizes if is_open)


def _search_width(decoding: DecodingConfig) -> int:
    """Return the number of hypotheses of the initial search."""
    return decoding.n_best if decoding.sample else decoding.beam_size


def count_hypotheses(decoding: DecodingConfig) -> int:
    """Return the hypotheses per token of the initial search plus fallback decoding."""
    return _search_width(decoding) + retry_options(decoding).beam_size


def _check_request(
    what: str, n_tokens: int, translator: Translator, decoding: DecodingConfig
) -> None:
    """Refuse a request if its initial search, or all searches with fallback, exceed the limit.

    Raises:
        InputError: with the size and the limit.
    """
    _check_tokens(what, n_tokens, find_max_work(translator), _search_width(decoding))
    _check_tokens(what, n_tokens, MAX_WORK, count_hypotheses(decoding))


def _check_tokens(what: str, n_tokens: int, max_work: int, width: int) -> None:
    """Refuse a number of tokens that exceeds the limit for this number of hypotheses.

    Raises:
        InputError: with the size and the limit.
    """
    if n_tokens * width > max_work:
        raise InputError(
            f"{what} may take {n_tokens:,} source and target tokens; with {width} hypotheses the "
            f"limit is {max_work // width:,}; split it, or reduce beam_size or max_new_tokens"
        )


def check_rows(
    translator: Translator, rows: Sequence[str], decoding: DecodingConfig
) -> list[float]:
    """Refuse a column of a file that exceeds a limit.

    Returns:
        estimated duration of each row in seconds.

    Raises:
        InputError: naming the row, or the size and the limit.
    """
    n_chars = sum(map(len, rows))
    if n_chars > MAX_FILE_CHARS:
        raise InputError(
            f"the column has {n_chars:,} characters; the limit is {MAX_FILE_CHARS:,}; "
            "split it, or use the command: hubnmt translate --input FILE"
        )
    for number, row in enumerate(rows, 1):
        if len(row) > MAX_ROW_CHARS:
            raise InputError(
                f"row {number:,} has {len(row):,} characters; the limit is {MAX_ROW_CHARS:,}; "
                "put one sentence or paragraph on each line"
            )
    _check_options(decoding)
    sizes = []
    for number, row in enumerate(rows, 1):
        n_row_tokens = _max_tokens(translator, row, decoding)
        _check_request(f"row {number:,}", n_row_tokens, translator, decoding)
        sizes.append(n_row_tokens)
    _check_tokens("the column", sum(sizes), MAX_FILE_WORK, count_hypotheses(decoding))
    tokens_per_s = measure_speed(translator) / _search_width(decoding)
    return [size / tokens_per_s for size in sizes]


def attend(translator: Translator, text: str, translation: str) -> Attention:
    """Compute the attention of a pair; an empty translation is replaced by the model's own.

    Raises:
        InputError: if a text is empty or too long.
    """
    check_text(text)
    if translation != "":
        check_text(translation)
    _check_drawable(translator, text, translation)
    if not translation:
        cost_s = check_work(translator, text, translator.decoding)
        translating = translator.stream(text, n_together=N_TOGETHER)
        translation = run_search(in_turns(translating, cost_s)).text
        _check_drawable(translator, text, translation)
    with model_turn(INSPECT_SECONDS):
        return translator.attend(text, translation)


def _check_drawable(translator: Translator, text: str, translation: str) -> None:
    n_src_tokens, n_tgt_tokens = _count_tokens(translator, text, translation)
    check_drawable(n_src_tokens, n_tgt_tokens, translator.config)


def attend_candidate(translator: Translator, src: str, candidate: Candidate) -> Attention:
    """Compute the attention of one sentence with the candidate's original tokenization.

    Raises:
        InputError: if the pair is too long to display.
    """
    n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
    check_drawable(n_src_tokens, len(candidate.tgt_ids[0]) + 1, translator.config)
    with model_turn(INSPECT_SECONDS):
        return translator.attend(src, candidate, split=False)


def align(translator: Translator, translation: Translation) -> list[dict[str, Any]]:
    """Align the words of a translation, see `list_links`; sentences too long to display have none.

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
    with model_turn(INSPECT_SECONDS):
        return occlude(translator, src, candidate)


def score(translator: Translator, src: str, tgt: str) -> PairScore:
    """Score a given translation.

    Raises:
        InputError: if a text is empty or too long.
    """
    check_text(src)
    check_text(tgt)
    n_tokens = max(_count_tokens(translator, src, tgt))
    if n_tokens > MAX_SCORED_TOKENS:
        raise InputError(
            f"too long to score: {n_tokens:,} tokens; the limit is {MAX_SCORED_TOKENS:,}; "
            "score one sentence at a time"
        )
    with model_turn(INSPECT_SECONDS):
        return translator.score(src, tgt)


def _count_tokens(translator: Translator, src: str, tgt: str) -> tuple[int, int]:
    """Return the numbers of source and target tokens of a pair, including eos."""
    n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
    return n_src_tokens, len(translator.tokenizers.tgt.encode(tgt)) + 1
