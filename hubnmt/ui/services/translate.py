"""Handlers of the Translate tab and the model picker."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, Unpack

from hubnmt.config import DecodingConfig, DecodingOptions
from hubnmt.decoding import run_search
from hubnmt.errors import HubNMTError
from hubnmt.hub.listing import Catalogue
from hubnmt.text.languages import main_tag
from hubnmt.translator import Translator
from hubnmt.types import Translation
from hubnmt.ui.services import decoding_controls, limits
from hubnmt.ui.services.catalogue import (
    Search,
    list_pairs,
    read_search,
    search_models,
    suggest_models,
)
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, read_facts
from hubnmt.ui.services.scheduler import MAX_WAIT_S, BusyError, in_turns, model_turn
from hubnmt.ui.services.shared_search import SharedEngine, SharedSearches
from hubnmt.ui.services.unsure import bind_sentence, find_unsure

PAUSE_S = 0.05
"""Minimum interval between streamed updates."""

LOAD_SECONDS = 0.5
"""Estimated time to load a local model and measure its speed."""

MAX_FETCHED = 2
"""Maximum concurrent downloads from the Hub; they hold no scheduler turn."""

MAX_STREAMED_CHARS = 1_000
"""Longer texts are decoded in batches of sentences, which takes a fifth of the time."""


class Chosen(NamedTuple):
    """A selected model."""

    facts: ModelFacts
    decoding: DecodingConfig
    """The model's default decoding options."""


class Timed(NamedTuple):
    """A translation with its duration."""

    translation: Translation
    seconds: float
    load_seconds: float
    """0 if the model was already loaded."""


class Answer(NamedTuple):
    """A translation as shown in the page."""

    timed: Timed
    alternatives: dict[str, Any]
    """Translation state kept by the page: `src`, `model`, the spans of its `sentences`, the
    `candidates` with token ids per sentence and the spans of `unsure` words, and the indices
    `selected` and `sentence`."""
    better_language: str = ""
    """Language of the source if it is not the model's and another model here translates it."""


class _Begun(NamedTuple):
    """A translation that waits for its turn: the arguments of `in_turns`."""

    steps: Generator[str, None, Translation]
    cost_s: float
    """Estimated duration."""
    is_begun: Callable[[], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Handlers:
    """Handlers shared by the tabs and the API."""

    registry: ModelRegistry
    catalogue: Catalogue = dataclasses.field(default_factory=Catalogue)
    """Listing of the Hub's models, refreshed at most once a minute."""
    _searches: SharedSearches = dataclasses.field(default_factory=SharedSearches)
    _fetching: threading.Semaphore = dataclasses.field(
        default_factory=lambda: threading.Semaphore(MAX_FETCHED)
    )

    def suggest(self) -> list[tuple[str, str]]:
        """Return suggested models as (label, reference)."""
        return suggest_models(self.registry, self.catalogue)

    def read_search(self, typed: str) -> Search | None:
        """Parse the picker's input as a Hub search; None if it is a model reference."""
        return read_search(self.registry, typed)

    def search(self, search: Search) -> list[tuple[str, str]]:
        """Return the results of a Hub search as (label, reference)."""
        return search_models(search, self.catalogue)

    def choose(self, model: str) -> Chosen:
        """Load a model, waiting for downloads, and return its metadata and defaults."""
        with self._opening(model):
            translator = self.registry.open(model)
        self._measure(translator)
        name = self.registry.name(model)
        folder = self.registry.folder(name)
        facts = read_facts(name, translator.config, translator.card, folder)
        return Chosen(facts, translator.decoding)

    def defaults(self, model: str) -> DecodingConfig:
        """Return a model's default options, or the global ones if it cannot be loaded."""
        try:
            return self.registry.get(model).decoding
        except HubNMTError:
            return DecodingConfig()

    def translate_text(
        self, text: str, model: str, *, prefix: str = "", **options: Unpack[DecodingOptions]
    ) -> Timed:
        """Translate a text and measure the time.

        Args:
            text: one or more sentences.
            model: model reference; empty selects the default model.
            prefix: text that the translation must begin with.
            options: fields of `DecodingConfig` that override the model's defaults.

        Raises:
            HubNMTError: if the text is empty or too long, or an option or the model is invalid.
        """
        translator, load_seconds = self._open(model)
        start = time.perf_counter()
        begun = self._begin(text, translator, prefix, options, n_together=limits.N_TOGETHER)
        translation = run_search(in_turns(*begun))
        seconds = time.perf_counter() - start
        if not (options or prefix):
            limits.note_speed(translator, begun.cost_s, seconds)
        return Timed(translation, seconds, load_seconds)

    def stream_text(
        self, text: str, model: str, *, prefix: str = "", **options: Unpack[DecodingOptions]
    ) -> Iterator[str | Timed]:
        """Stream partial translations, then yield the result of `translate_text`.

        Raises:
            HubNMTError: see `translate_text`.
        """
        translator, load_seconds = self._open(model)
        start = time.perf_counter()
        n_together = 1 if len(text) <= MAX_STREAMED_CHARS else limits.N_TOGETHER
        begun = self._begin(text, translator, prefix, options, n_together=n_together)
        translation = yield from in_turns(*begun)
        yield Timed(translation, time.perf_counter() - start, load_seconds)

    def _begin(
        self,
        text: str,
        translator: Translator,
        prefix: str,
        options: DecodingOptions,
        *,
        n_together: int,
    ) -> _Begun:
        """Check a request and register its sentences for a shared batch.

        Raises:
            HubNMTError: see `translate_text`.
        """
        limits.check_text(text)
        decoding = translator.decoding.with_options(**options)
        engine = SharedEngine(translator.engine, self._searches)
        with model_turn(limits.CHECK_SECONDS * len(text) / limits.MAX_TEXT_CHARS):
            cost_s = limits.check_work(translator, text, decoding, prefix)
            translating = translator.stream(
                text, decoding=decoding, prefix=prefix, n_together=n_together, engine=engine
            )
            next(translating)
        return _Begun(translating, cost_s, engine.is_begun)

    def _open(self, model: str) -> tuple[Translator, float]:
        """Return a model and its loading time in seconds, 0 if it was already loaded."""
        start = time.perf_counter()
        was_open = self.registry.is_open(model)
        with contextlib.nullcontext() if was_open else self._opening(model):
            translator = self.registry.get(model)
        self._measure(translator)
        return translator, 0.0 if was_open else time.perf_counter() - start

    @contextlib.contextmanager
    def _opening(self, model: str) -> Iterator[None]:
        """Wait until a model may be loaded; downloads hold no scheduler turn."""
        if self.registry.folder(self.registry.name(model)) is not None:
            with model_turn(LOAD_SECONDS):
                yield
            return
        if not self._fetching.acquire(timeout=MAX_WAIT_S):
            raise BusyError
        try:
            yield
        finally:
            self._fetching.release()

    def _measure(self, translator: Translator) -> None:
        if not limits.has_speed(translator):
            with model_turn(LOAD_SECONDS):
                limits.measure_speed(translator)

    def translate_page(self, text: str, model: str, *options: Any) -> Iterator[str | Answer]:
        """Stream partial translations to the page, then yield the complete answer.

        Args:
            text: see `translate_text`.
            model: see `translate_text`.
            options: control values in the order of `decoding_controls.NAMES`.
        """
        overrides = decoding_controls.read_options(options)
        shown, shown_at = "", -PAUSE_S
        for found in self.stream_text(text, model, **overrides):
            if isinstance(found, Timed):
                other = found.translation.detected_language
                known = {main_tag(src) for src, _ in list_pairs(self.registry).values()}
                answer = _answer(text, model, found, self.registry.get(model))
                yield answer._replace(better_language=other if other in known else "")
            elif found != shown and time.perf_counter() - shown_at >= PAUSE_S:
                shown, shown_at = found, time.perf_counter()
                yield found


def _answer(text: str, model: str, timed: Timed, translator: Translator) -> Answer:
    """Build the page's answer, including the state for later inspection."""
    found = timed.translation
    bound = [bind_sentence(translator, text[slice(*each.src)]) for each in found.sentences]
    return Answer(
        timed,
        {
            "src": text,
            "model": model,
            "sentences": [list(each.src) for each in found.sentences],
            "candidates": [
                {
                    "text": each.text,
                    "probability": each.token_probability,
                    "rows": [list(row) for row in each.tgt_ids],
                    "unsure": find_unsure(each.text, each.tgt_ids, each.tgt_log_probs, bound),
                }
                for each in found.n_best
            ],
            "selected": 0,
            "sentence": 0,
        },
    )
