"""Attention and token alternatives for one sentence of a translation.

`state` is the translation state of the page. A request that fails becomes a `message` in the
affected panel instead of a page-wide error.
"""

import dataclasses
from typing import Any, Unpack

from hubnmt.analysis.occlusion import find_words, occlude
from hubnmt.attention.explorer import check_drawable, explorer_figure
from hubnmt.attention.maps import Attention
from hubnmt.config import DecodingConfig, DecodingOptions
from hubnmt.errors import HubNMTError, InputError
from hubnmt.translator import Translator
from hubnmt.types import Candidate
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import (
    Subject,
    bind_sentence,
    rate_words,
    read_index,
    read_subject,
)
from hubnmt.ui.services.text_format import with_message
from hubnmt.ui.services.turns import TURNS

N_CHOICES = 6
"""Number of token alternatives; further ones have negligible probability."""

MAX_SHOWN_TOKENS = 60
"""Tokens generated after an alternative for its preview: completing a long sentence for each
alternative would be slow. Selecting one completes it."""

MAX_OCCLUDED_WORDS = 40
"""Maximum words of a sentence for occlusion analysis: each costs one forward pass."""

Panel = dict[str, Any]
"""Value of a panel of the page."""


def explore(registry: ModelRegistry, state: Any) -> tuple[Panel | None, Panel | None]:
    """Return the attention explorer and the steering row; None hides one."""
    if not state:
        return None, None
    try:
        translator, subject = read_subject(registry, state)
        maps = attend_candidate(translator, subject.src, subject.candidate)
    except HubNMTError as error:
        return with_message({}, error), None
    drops = None
    if 2 <= len(find_words(translator, subject.src).tokens) <= MAX_OCCLUDED_WORDS:
        with TURNS.turn():
            drops = occlude(translator, subject.src, subject.candidate).drops
    figure, config = explorer_figure(maps, drops), translator.config
    figure["languages"] = [config.src_lang, config.tgt_lang]
    words = [
        {"text": word, "at": at, "probability": probability}
        for word, at, probability, _ in rate_words(maps.tgt, maps.tgt_log_probs)
    ]
    return figure, {"language": config.tgt_lang, "words": words}


def attend_candidate(translator: Translator, src: str, candidate: Candidate) -> Attention:
    """Compute the attention of one sentence with the candidate's original tokenization."""
    n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
    check_drawable(n_src_tokens, len(candidate.tgt_ids[0]) + 1, translator.config)
    with TURNS.turn():
        return translator.attend(src, candidate, split=False)


def ask(registry: ModelRegistry, state: Any, steering: Any) -> dict[str, Any]:
    """Find the most probable alternatives at the selected position."""
    try:
        translator, subject = read_subject(registry, state)
        prefix = _prefix_ids(subject, steering)
        with TURNS.turn():
            found = translator.alternatives(
                subject.src, prefix, N_CHOICES, max_new_tokens=MAX_SHOWN_TOKENS
            )
    except HubNMTError as error:
        return with_message(steering, error)
    choices = [dataclasses.asdict(choice) for choice in found]
    text = bind_sentence(translator, subject.src).decode_line(prefix)
    return {**steering, "said": text, "choices": choices, "message": ""}


def steer(
    registry: ModelRegistry, state: Any, steering: Any, **options: Unpack[DecodingOptions]
) -> tuple[str | None, Panel | None, Panel | None, Panel]:
    """Apply the `choice` of the steering row, and inspect the result.

    The options are for completing an alternative that was cut.

    Returns:
        text, state, explorer and row; None leaves one unchanged.
    """
    try:
        translator, subject = read_subject(registry, state)
        single: DecodingOptions = {"n_best": 1, "sample": False}
        decoding = translator.decoding.with_options(**(options | single))
        row = _steered_row(translator, subject, steering, decoding)
        changed = subject.replace_row(row, translator)
    except HubNMTError as error:
        return None, None, None, with_message(steering, error)
    figure, row_after = explore(registry, changed)
    return changed["candidates"][0]["text"], changed, figure, row_after or {}


def _prefix_ids(subject: Subject, steering: Any) -> tuple[int, ...]:
    """Return the token ids before the selected position."""
    try:
        at = read_index(steering["words"][read_index(steering["place"])]["at"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError("invalid word position; translate again") from None
    return subject.row[:at]


def _steered_row(
    translator: Translator, subject: Subject, steering: Any, decoding: DecodingConfig
) -> tuple[int, ...]:
    """Return the token ids of the steered sentence."""
    tokenizer = bind_sentence(translator, subject.src)
    prefix = tokenizer.decode_line(_prefix_ids(subject, steering))
    try:
        choice = steering["choices"][read_index(steering["choice"])]
        text, is_whole = choice["text"], choice.get("is_whole", True)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        raise InputError("invalid alternative; select a word again") from None
    limits.check_text(text or ".")
    if is_whole or not text.startswith(prefix):
        return tuple(tokenizer.encode(text))
    # Only the continuation counts towards the limits: the rest is of an admitted translation.
    limits.check_search(subject.src, decoding, text.removeprefix(prefix))
    with TURNS.turn():
        found = translator.translate(subject.src, decoding=decoding, prefix=text, split=False)
    return found.n_best[0].tgt_ids[0]
