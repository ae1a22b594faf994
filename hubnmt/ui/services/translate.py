"""Translation of a text in turns, with its duration, and comparison of two translations."""

import dataclasses
import re
import time
from collections.abc import Generator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, Unpack

from hubnmt.config import DecodingConfig, DecodingOptions
from hubnmt.decoding.search import run_to_end
from hubnmt.errors import InputError
from hubnmt.text.languages import language_name
from hubnmt.types import Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.decoding_controls import CONTROLS
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.turns import in_turns

N_TOGETHER = 16
"""Batch size for the sentences of a long text."""

MAX_STREAMED_CHARS = 1_000
"""Longer texts are decoded in batches of sentences, which takes a fifth of the time."""

MAX_WORDS = 8_000
"""Maximum number of tokens (words, punctuation, whitespace) for which a diff is computed."""

WORDS = re.compile(r"\s+|[.,;:!?…।]+|[^\s.,;:!?…।]+")
"""Whitespace, sentence punctuation, and runs of anything else; matches cover the whole text. `\\w`
is not used, because Python's excludes the vowel signs of many scripts."""


class TimedTranslation(NamedTuple):
    """A translation with its duration, without loading the model."""

    translation: Translation
    seconds: float
    decoding: DecodingConfig
    """The decoding options used."""


def stream_text(
    registry: ModelRegistry,
    text: str,
    model: str,
    *,
    prefix: str = "",
    n_together: int = 1,
    **options: Unpack[DecodingOptions],
) -> Generator[str, None, TimedTranslation]:
    """Yield the growing translation of a text, at least `n_together` sentences at a time.

    An empty model is the default one.
    """
    limits.check_text(text)
    if len(text) > MAX_STREAMED_CHARS:
        n_together = N_TOGETHER
    translator = registry.get(model)
    started = time.perf_counter()
    decoding = translator.decoding.with_options(**options)
    limits.check_search(text, decoding, prefix)
    translation = yield from in_turns(
        translator.stream(text, decoding=decoding, prefix=prefix, n_together=n_together)
    )
    return TimedTranslation(translation, time.perf_counter() - started, decoding)


def translate_text(
    registry: ModelRegistry,
    text: str,
    model: str,
    *,
    prefix: str = "",
    **options: Unpack[DecodingOptions],
) -> TimedTranslation:
    """Translate a text; an empty model is the default one."""
    return run_to_end(
        stream_text(registry, text, model, prefix=prefix, n_together=N_TOGETHER, **options)
    )


class Span(NamedTuple):
    """A substring of a text."""

    text: str
    is_different: bool
    """Whether it occurs in this text only."""


def mark_differences(first: str, second: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Compute a word-level diff; nothing is marked if a text has more than `MAX_WORDS`."""
    words = WORDS.findall(first), WORDS.findall(second)
    if max(map(len, words)) > MAX_WORDS:
        return (Span(first, False),), (Span(second, False),)
    spans: tuple[list[Span], list[Span]] = ([], [])
    for kind, *bounds in SequenceMatcher(str.isspace, *words).get_opcodes():
        for side, start, end in ((0, *bounds[:2]), (1, *bounds[2:])):
            if start < end:
                spans[side].append(Span("".join(words[side][start:end]), kind != "equal"))
    return tuple(spans[0]), tuple(spans[1])


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One of the two translations."""

    model: str
    timed: TimedTranslation
    settings: str
    """Search or sampling, and the options that are not the model's own."""
    spans: tuple[Span, ...]
    """The translation, split at the differences from the other."""


def compare(
    registry: ModelRegistry, text: str, models: Sequence[str], options: Sequence[Mapping[str, Any]]
) -> list[Side]:
    """Translate a text with two models, each with its options."""
    limits.check_text(text)
    opened = [registry.open(model) for model in models]
    first, second = (
        f"{language_name(facts.src_lang)} to {language_name(facts.tgt_lang)}" for facts in opened
    )
    if first != second:
        raise InputError(
            f"A translates {first} and B {second}: choose models of the same language pair"
        )
    made = [
        translate_text(registry, text, model, **overrides)
        for model, overrides in zip(models, options, strict=True)
    ]
    spans = mark_differences(*(timed.translation.text for timed in made))
    return [
        Side(
            model=facts.name,
            timed=timed,
            settings=_settings(timed.decoding, facts.decoding, overrides.get("prefix", "")),
            spans=marked,
        )
        for facts, timed, overrides, marked in zip(opened, made, options, spans, strict=True)
    ]


def _settings(used: DecodingConfig, own: DecodingConfig, prefix: str) -> str:
    """Describe the method of a translation, and the options that are not the model's own."""
    method = f"Sampling, seed {used.seed}" if used.sample else f"Beam size {used.beam_size}"
    labels = {control.name: control.label.lower() for control in CONTROLS}
    others = [
        f"{labels[name]} {value}"
        for name, value in used.to_dict().items()
        if name not in ("beam_size", "sample", "seed", "n_best") and value != getattr(own, name)
    ]
    return ", ".join([method, *others, *([f"prefix “{prefix}”"] if prefix else [])])
