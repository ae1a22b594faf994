"""Translation of a text in turns, with its duration."""

import time
from collections.abc import Generator
from typing import NamedTuple, Unpack

from hubnmt.config import DecodingConfig, DecodingOptions
from hubnmt.decoding import run_search
from hubnmt.types import Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.turns import in_turns

N_TOGETHER = 16
"""Batch size for the sentences of a long text."""

MAX_STREAMED_CHARS = 1_000
"""Longer texts are decoded in batches of sentences, which takes a fifth of the time."""


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
    return run_search(
        stream_text(registry, text, model, prefix=prefix, n_together=N_TOGETHER, **options)
    )
