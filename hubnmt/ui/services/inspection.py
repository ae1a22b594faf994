"""Attention, token alternatives and head ablation for one sentence of a translation.

A request that fails becomes a `message` in the affected panel instead of a page-wide error.
"""

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple, Unpack

from hubnmt.analysis.head_ablation import PARTS, Head, without_heads
from hubnmt.attention.explorer import explorer_figure
from hubnmt.attention.maps import Attention
from hubnmt.config import DecodingConfig, DecodingOptions, ModelConfig
from hubnmt.errors import HubNMTError, InputError
from hubnmt.pipeline.sentence import decode_line
from hubnmt.text.graphemes import number_words
from hubnmt.translator import Translator
from hubnmt.ui.services import limits
from hubnmt.ui.services.compare import mark_differences
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import Subject, bind_sentence, read_index, read_subject
from hubnmt.ui.services.text_format import short_count, with_message
from hubnmt.ui.services.turns import model_turn

N_CHOICES = 6
"""Number of token alternatives; further ones have negligible probability."""

MAX_SHOWN_TOKENS = 60
"""Tokens generated after an alternative for its preview: completing a long sentence for each
alternative would be slow. Selecting one completes it."""

MAX_ABLATED = 2
"""Maximum number of cached translators: one with all heads, one with ablated heads."""

MAX_ABLATED_PARAMETERS = 100_000_000
"""Maximum size for head ablation, which copies the model."""


class Inspection(NamedTuple):
    """Data of the attention explorer, the steering row and the head switches; None hides one."""

    figure: dict[str, Any] | None = None
    steering: dict[str, Any] | None = None
    switches: dict[str, Any] | None = None


class SteeringUpdate(NamedTuple):
    """Update of the page after a steering request; None leaves a part unchanged."""

    text: str | None
    state: dict[str, Any] | None
    figure: dict[str, Any] | None
    steering: dict[str, Any]
    switches: dict[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Inspector:
    """Handlers of the inspection panels; `state` is the translation state of the page."""

    registry: ModelRegistry

    def explore(self, state: Any) -> Inspection:
        """Compute the panels' data for the selected sentence."""
        if not state:
            return Inspection()
        try:
            translator, subject = read_subject(self.registry, state)
            maps = limits.attend_candidate(translator, subject.src, subject.candidate)
        except HubNMTError as error:
            return Inspection(with_message({}, error))
        occlusion = limits.occlude_words(translator, subject.src, subject.candidate)
        config = translator.config
        figure = explorer_figure(maps, occlusion.drops if occlusion else None)
        figure["languages"] = [config.src_lang, config.tgt_lang]
        return Inspection(figure, _steering(maps, config.tgt_lang), _switches(config))

    def ask(self, state: Any, steering: Any) -> dict[str, Any]:
        """Find the most probable alternatives at the selected position."""
        try:
            translator, subject = read_subject(self.registry, state)
            prefix = _prefix_ids(subject, steering)
            with model_turn():
                found = translator.alternatives(
                    subject.src, prefix, N_CHOICES, max_new_tokens=MAX_SHOWN_TOKENS
                )
        except HubNMTError as error:
            return with_message(steering, error)
        choices = [dataclasses.asdict(choice) for choice in found]
        text = decode_line(prefix, bind_sentence(translator, subject.src))
        return {**steering, "said": text, "choices": choices, "message": ""}

    def steer(
        self, state: Any, steering: Any, **options: Unpack[DecodingOptions]
    ) -> SteeringUpdate:
        """Apply the `choice` of the steering row, and inspect the result.

        The options are for completing an alternative that was cut.
        """
        try:
            translator, subject = read_subject(self.registry, state)
            single: DecodingOptions = {"n_best": 1, "sample": False}
            decoding = translator.decoding.with_options(**(options | single))
            row = _steered_row(translator, subject, steering, decoding)
            changed = subject.replace_row(row, translator)
        except HubNMTError as error:
            return SteeringUpdate(None, None, None, with_message(steering, error), None)
        found = self.explore(changed)
        text = changed["candidates"][0]["text"]
        return SteeringUpdate(text, changed, found.figure, found.steering or {}, found.switches)

    def switch(self, state: Any, switches: Any) -> dict[str, Any]:
        """Translate the selected sentence with and without the chosen heads."""
        try:
            translator, subject = read_subject(self.registry, state)
            off = _read_heads(switches)
            with model_turn():
                # The baseline also runs on the PyTorch engine with the same weights.
                both = [_without(translator, heads) for heads in (frozenset[Head](), off)]
                before, after = (
                    ablated.translate(subject.src, split=False, guard=False) for ablated in both
                )
                log_probs = [
                    ablated.score(subject.src, before.n_best[0], split=False).log_prob
                    for ablated in both
                ]
        except HubNMTError as error:
            return with_message(switches, error)
        spans = [list(map(list, side)) for side in mark_differences(before.text, after.text)]
        return {**switches, "answer": {"spans": spans, "log_probs": log_probs}, "message": ""}


@functools.lru_cache(maxsize=MAX_ABLATED)
def _without(translator: Translator, off: frozenset[Head]) -> Translator:
    """Return a copy of the translator without these heads."""
    if translator.config.n_parameters > MAX_ABLATED_PARAMETERS:
        raise InputError(
            "this model is too large for head ablation on this page: more than "
            f"{short_count(MAX_ABLATED_PARAMETERS)} parameters"
        )
    return without_heads(translator, off)


def _read_heads(switches: Any) -> frozenset[Head]:
    try:
        return frozenset(
            Head(str(part), read_index(layer), read_index(head))
            for part, layer, head in switches["off"]
        )
    except (KeyError, TypeError, ValueError):
        raise InputError("invalid selection of heads; select them again") from None


def _steering(maps: Attention, language: str) -> dict[str, Any]:
    """Return the words of a translation, each with its probability and first token index."""
    words = maps.by_word()
    _, sizes = maps.tgt.group(number_words)
    starts = itertools.accumulate([0, *sizes[:-1]])
    rows = zip(words.tgt.tokens, starts, words.tgt_log_probs, strict=True)
    return {
        "language": language,
        "words": [
            {"text": text, "at": at, "probability": math.exp(min(log_prob, 0))}
            for text, at, log_prob in rows
        ],
    }


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
    prefix = decode_line(_prefix_ids(subject, steering), tokenizer)
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
    with model_turn():
        found = translator.translate(subject.src, decoding=decoding, prefix=text, split=False)
    return found.n_best[0].tgt_ids[0]


def _switches(config: ModelConfig) -> dict[str, Any]:
    layers = (config.n_encoder_layers, config.n_decoder_layers, config.n_decoder_layers)
    parts = [[part, n, config.n_heads] for part, n in zip(PARTS, layers, strict=True)]
    return {"parts": parts, "alignment": config.alignment_head, "off": []}
