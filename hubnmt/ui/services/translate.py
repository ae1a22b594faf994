"""Handlers of the Translate tab and the model picker."""

import dataclasses
import time
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, Unpack

from hubnmt.config import DecodingConfig, DecodingOptions
from hubnmt.decoding import run_search
from hubnmt.errors import HubNMTError
from hubnmt.text.languages import main_tag
from hubnmt.types import Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, list_pairs
from hubnmt.ui.services.subject import page_state
from hubnmt.ui.services.turns import in_turns

MAX_STREAMED_CHARS = 1_000
"""Longer texts are decoded in batches of sentences, which takes a fifth of the time."""


class SelectedModel(NamedTuple):
    """A selected model."""

    facts: ModelFacts
    decoding: DecodingConfig
    """The model's default decoding options."""


class TimedTranslation(NamedTuple):
    """A translation with its duration, without loading the model."""

    translation: Translation
    seconds: float
    decoding: DecodingConfig
    """The decoding options used."""


class PageTranslation(NamedTuple):
    """A translation as shown in the page."""

    timed: TimedTranslation
    alternatives: dict[str, Any]
    """State of the page, see `Subject`."""
    better_language: str = ""
    """Language of the source if it is not the model's and another model here translates it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Handlers:
    """Handlers shared by the tabs and the API; a model reference may be empty for the default."""

    registry: ModelRegistry

    def choose(self, model: str) -> SelectedModel:
        """Load a model and return its metadata and defaults."""
        translator = self.registry.get(model)
        return SelectedModel(self.registry.facts(model), translator.decoding)

    def defaults(self, model: str) -> DecodingConfig:
        """Return a model's default options, or the global ones if it cannot be loaded."""
        try:
            return self.registry.get(model).decoding
        except HubNMTError:
            return DecodingConfig()

    def translate_text(
        self, text: str, model: str, *, prefix: str = "", **options: Unpack[DecodingOptions]
    ) -> TimedTranslation:
        """Translate a text and measure the time."""
        return run_search(self._search(text, model, prefix, options, n_together=limits.N_TOGETHER))

    def translate_page(
        self, text: str, model: str, *, prefix: str = "", **options: Unpack[DecodingOptions]
    ) -> Iterator[str | PageTranslation]:
        """Stream partial translations to the page, then yield the complete one."""
        is_short = isinstance(text, str) and len(text) <= MAX_STREAMED_CHARS
        n_together = 1 if is_short else limits.N_TOGETHER
        timed = yield from self._search(text, model, prefix, options, n_together=n_together)
        found = timed.translation
        known = {main_tag(src) for src, _ in list_pairs(self.registry).values()}
        better = found.detected_language if found.detected_language in known else ""
        state = page_state(text, model, found, self.registry.get(model))
        yield PageTranslation(timed, state, better)

    def _search(
        self, text: str, model: str, prefix: str, options: DecodingOptions, *, n_together: int
    ) -> Generator[str, None, TimedTranslation]:
        limits.check_text(text)
        translator = self.registry.get(model)
        started = time.perf_counter()
        decoding = translator.decoding.with_options(**options)
        limits.check_search(text, decoding, prefix)
        translation = yield from in_turns(
            translator.stream(text, decoding=decoding, prefix=prefix, n_together=n_together)
        )
        return TimedTranslation(translation, time.perf_counter() - started, decoding)
