"""How much one visitor may ask for at once: others are waiting, and memory is bounded.

Takes texts and a `Translator`; gives what it answers, or refuses with a sentence that says what to
do instead. Must not know Gradio.
"""

import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from hubnmt.analysis.occlusion import Occlusion, find_words
from hubnmt.analysis.occlusion import occlude as find_left_out
from hubnmt.attention.maps import Attention
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.inference.engine import max_tgt_tokens
from hubnmt.pipeline.fallback import retry_options
from hubnmt.pipeline.prefix import check_prefix
from hubnmt.pipeline.segmentation import make_plan
from hubnmt.translator import Translator
from hubnmt.types import Candidate, PairScore
from hubnmt.ui.html.attention import check_drawable
from hubnmt.ui.services.scheduler import model_turn, run_in_turns

MAX_TEXT_CHARS = 10_000
"""Longest text translated in one go, about four printed pages."""

MAX_WORK = 128_000
"""Most tokens times hypotheses translated in one go, those of the fallback search counted: 4,000
pieces with a beam of 16. Text in a script that the vocabulary does not know falls into many more
pieces than usual, and each costs time that others wait. A slower machine or model takes less: see
`find_max_work`."""

MIN_WORK = 4_000
"""What every machine takes, a paragraph of 1,000 characters, even if it was busy when measured."""

MAX_SECONDS = 2.0
"""Longest that one request may keep the model busy, as estimated."""

SPEED_SAMPLE = "My sister lives in London, and on Sunday she is coming to see us.\n" * 32
"""Text that the speed is measured with: 32 sentences, searched side by side."""

SPEED_TOKENS = 8
"""Tokens of each translation of the sample: enough to see how long one takes."""

MAX_CORRECTION = 1.5
"""How much one text may raise the speed: a strange one may end sooner than foreseen."""

SPEED_ROUNDS = 2
"""Times that the speed is measured; the fastest counts, since the first is slower."""

LOOK_SECONDS = 0.2
"""What scoring a pair and replaying it for its attention take at most, by the limits below."""

CHECK_SECONDS = 0.05
"""What cutting a text into pieces takes, to count them."""

N_TOGETHER = 32
"""Sentences of a long text that are searched side by side."""

MAX_FILE_WORK = 8_000_000
"""Most tokens times hypotheses of a file: `MAX_FILE_CHARS` of ordinary text with a beam of 16,
which takes ten minutes."""

MAX_NEW_TOKENS = 512
"""Longest translation of a sentence that can be asked for."""

MAX_PREFIX_CHARS = 300
"""Longest beginning that a visitor may give: a long sentence. A word may take a step a letter."""

MAX_FILE_CHARS = 1_000_000
"""Most text in the column of a file that is translated."""

MAX_ROW_CHARS = 2_000
"""Longest row of a file: a paragraph. A job can be cancelled between chunks of rows only."""

MAX_SCORED_TOKENS = 1_000
"""Longest side of a pair that is scored: far beyond a sentence, and its logits stay small."""

MAX_LEFT_OUT_WORDS = 40
"""Longest sentence whose words are left out in turn: each costs one replay."""


def check_text(text: Any) -> None:
    """Refuse what is no text to translate.

    Raises:
        InputError: saying what to do instead.
    """
    if not isinstance(text, str):
        raise InputError(f"the text must be a string, not {type(text).__name__}")
    if not text.strip():
        raise InputError("there is nothing to translate yet: type or paste some text first")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"this text has {len(text):,} characters, the page takes {MAX_TEXT_CHARS:,} at a time; "
            "translate it in parts, or use the command: hubnmt translate --input FILE"
        )
    check_characters(text, "the text")


def check_characters(text: str, name: str) -> None:
    """Refuse half a surrogate pair, which JSON can spell and UTF-8 cannot.

    Raises:
        InputError: with the name of what has it.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} has half a surrogate pair in it, which is no character; take it out"
        ) from None


_SPEEDS: "weakref.WeakKeyDictionary[Translator, float]" = weakref.WeakKeyDictionary()


def has_speed(translator: Translator) -> bool:
    """Return whether the speed of a model on this machine is known."""
    return translator in _SPEEDS


def measure_speed(translator: Translator) -> float:
    """Measure how many tokens times hypotheses a model translates in a second on this machine.

    Of each sentence the first `SPEED_TOKENS` are translated, which are all that count.
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
    """Correct a speed that was measured while the machine was busy, by a text that took less.

    Args:
        translator: of the text.
        cost_s: what it was estimated to take, without options.
        seconds: what it took, waiting included.
    """
    if cost_s > seconds > 0:
        _SPEEDS[translator] *= min(cost_s / seconds, MAX_CORRECTION)


def find_max_work(translator: Translator) -> int:
    """Return the most tokens times hypotheses that a request may ask of a model."""
    seen = int(MAX_SECONDS * measure_speed(translator))
    return min(max(seen, MIN_WORK), MAX_WORK)


def check_work(translator: Translator, text: str, options: Mapping[str, Any]) -> float:
    """Refuse a text and options that would keep the model busy for too long.

    Returns:
        the seconds that they are estimated to take.

    Raises:
        InputError: with the size and the limit.
        ConfigError: if there is no such option, or it cannot have this value.
    """
    decoding = _read_options(translator, options)
    n_prefix = len((options.get("prefix") or "").encode())  # a word may be spelled byte by byte
    n_tokens = n_prefix + _most_tokens(translator, text, decoding)
    _check_tokens("this text", n_tokens, find_max_work(translator), decoding)
    return n_tokens * count_hypotheses(decoding) / measure_speed(translator)


def _read_options(translator: Translator, options: Mapping[str, Any]) -> DecodingConfig:
    """Set options over a model's own; refuse those that this page does not take.

    Raises:
        InputError: with the size and the limit.
    """
    prefix = options.get("prefix") or ""
    decoding = translator.read_options(
        {name: value for name, value in options.items() if name != "prefix"}
    )
    if (decoding.max_new_tokens or 0) > MAX_NEW_TOKENS:
        raise InputError(
            f"max_new_tokens = {decoding.max_new_tokens}: this page makes translations of at "
            f"most {MAX_NEW_TOKENS} tokens a sentence"
        )
    check_prefix(prefix)
    if len(prefix) > MAX_PREFIX_CHARS:
        raise InputError(
            f"the beginning you gave has {len(prefix):,} characters, "
            f"at most {MAX_PREFIX_CHARS:,} are taken"
        )
    check_characters(prefix, "the beginning you gave")
    return decoding


def _most_tokens(translator: Translator, text: str, decoding: DecodingConfig) -> int:
    """Count the pieces of a text, and those of its translation as far as they can be foreseen.

    A search ends about where its source does, unless it is told how far it may go. Samples may go
    as far as they may: at a high temperature nothing tells them to end.
    """
    plan = make_plan(
        text,
        translator.src_tokenizer,
        language=translator.config.src_lang,
        max_src_tokens=translator.config.max_src_tokens,
    )
    sizes = [len(part.ids) for part in plan.translatable]
    is_open = decoding.sample or decoding.max_new_tokens is not None
    return sum(sizes) + sum(max_tgt_tokens(size, decoding) for size in sizes if is_open)


def _search_width(decoding: DecodingConfig) -> int:
    """Count the hypotheses of the first search."""
    return decoding.n_best if decoding.sample else decoding.beam_size


def count_hypotheses(decoding: DecodingConfig) -> int:
    """Count the hypotheses that each token may be part of: what looks wrong is searched again."""
    return _search_width(decoding) + retry_options(decoding).beam_size


def _check_tokens(what: str, n_tokens: int, most: int, decoding: DecodingConfig) -> None:
    """Refuse too many tokens for so many hypotheses.

    Raises:
        InputError: with the size and the limit.
    """
    width = count_hypotheses(decoding)
    if n_tokens * width > most:
        raise InputError(
            f"{what} may take {n_tokens:,} tokens, its own and those of its translation, too many "
            f"for {width} hypotheses at a time (the page takes {most // width:,} then); translate "
            "it in parts, with a smaller beam, or a smaller max_new_tokens"
        )


def check_rows(
    translator: Translator, rows: Sequence[str], options: Mapping[str, Any]
) -> list[float]:
    """Refuse a column of a file that is too much for the page.

    Returns:
        the seconds that each row is estimated to take.

    Raises:
        InputError: naming the row, or the size and the limit.
    """
    n_chars = sum(map(len, rows))
    if n_chars > MAX_FILE_CHARS:
        raise InputError(
            f"this column has {n_chars:,} characters, the page takes {MAX_FILE_CHARS:,}; "
            "translate it in parts, or use the command: hubnmt translate --input FILE"
        )
    for number, row in enumerate(rows, 1):
        if len(row) > MAX_ROW_CHARS:
            raise InputError(
                f"row {number:,} has {len(row):,} characters, the page takes {MAX_ROW_CHARS:,} "
                "in a row; put one sentence or paragraph on each line"
            )
    decoding = _read_options(translator, options)
    sizes = []
    max_work = find_max_work(translator)
    for number, row in enumerate(rows, 1):
        n_row_tokens = _most_tokens(translator, row, decoding)
        _check_tokens(f"row {number:,}", n_row_tokens, max_work, decoding)
        sizes.append(n_row_tokens)
    _check_tokens("this column", sum(sizes), MAX_FILE_WORK, decoding)
    tokens_per_s = measure_speed(translator) / count_hypotheses(decoding)
    return [size / tokens_per_s for size in sizes]


def attend(translator: Translator, text: str, translation: str) -> Attention:
    """Look inside one translation, by default the model's own, if it is short enough.

    Raises:
        InputError: if there is no text, or too much.
    """
    check_text(text)
    if translation != "":
        check_text(translation)
    _check_drawable(translator, text, translation)
    if not translation:
        cost_s = check_work(translator, text, {})
        translating = translator.stream(text, n_together=N_TOGETHER)
        translation = run_in_turns(translating, cost_s).text
        _check_drawable(translator, text, translation)
    with model_turn(LOOK_SECONDS):
        return translator.attend(text, translation)


def _check_drawable(translator: Translator, text: str, translation: str) -> None:
    n_src_tokens, n_tgt_tokens = _count_tokens(translator, text, translation)
    check_drawable(n_src_tokens, n_tgt_tokens, translator.config)


def attend_candidate(translator: Translator, src: str, candidate: Candidate) -> Attention:
    """Look inside one sentence of a translation, exactly as it was searched.

    Raises:
        InputError: if it is too long to draw.
    """
    n_src_tokens = len(translator.src_tokenizer.encode(src)) + 1
    check_drawable(n_src_tokens, len(candidate.tgt_ids[0]) + 1, translator.config)
    with model_turn(LOOK_SECONDS):
        return translator.attend(src, candidate, split=False)


def leave_out(translator: Translator, src: str, candidate: Candidate) -> Occlusion | None:
    """Leave out each word of a sentence; None where there are too many, or only one."""
    n_words = len(find_words(translator, src).tokens)
    if not 2 <= n_words <= MAX_LEFT_OUT_WORDS:
        return None
    with model_turn(LOOK_SECONDS):
        return find_left_out(translator, src, candidate)


def score(translator: Translator, src: str, tgt: str) -> PairScore:
    """Score a given translation, if it is short enough.

    Raises:
        InputError: if there is no text, or too much.
    """
    check_text(src)
    check_text(tgt)
    n_tokens = max(_count_tokens(translator, src, tgt))
    if n_tokens > MAX_SCORED_TOKENS:
        raise InputError(
            f"too long to score: {n_tokens:,} tokens, at most {MAX_SCORED_TOKENS:,} are taken; "
            "score sentence by sentence"
        )
    with model_turn(LOOK_SECONDS):
        return translator.score(src, tgt)


def _count_tokens(translator: Translator, src: str, tgt: str) -> tuple[int, int]:
    """Count the tokens of a pair, the eos of each included."""
    n_src_tokens = len(translator.src_tokenizer.encode(src)) + 1
    return n_src_tokens, len(translator.tgt_tokenizer.encode(tgt)) + 1
