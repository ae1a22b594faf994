"""What the page does, as functions that need no server.

Takes what a visitor typed and chose, gives what the page shows. A request that cannot be met raises
`HubNMTError`; `layout` says it in the page. Must not know Gradio.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from hubnmt.config import DecodingConfig
from hubnmt.errors import HubNMTError
from hubnmt.hub.listing import Catalogue
from hubnmt.translator import Translator
from hubnmt.types import Translation
from hubnmt.ui.html import attention
from hubnmt.ui.services import decoding_controls, limits
from hubnmt.ui.services.catalogue import (
    Search,
    find_reverse,
    read_search,
    search_models,
    suggest_models,
)
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, read_facts
from hubnmt.ui.services.scheduler import MAX_WAIT_S, BusyError, in_turns, model_turn, run_in_turns

PAUSE_S = 0.05
"""Between two sights of a growing translation: faster than reading, slow enough to send."""

LOAD_SECONDS = 0.5
"""What opening a model of this machine takes, and measuring its speed."""

MAX_FETCHED = 2
"""Models of the Hub that are opened at a time; no translation waits for them."""

MAX_STREAMED_CHARS = 1_000
"""A longer text grows by sentences, not by words: side by side they take a fifth of the time."""


class Chosen(NamedTuple):
    """A model as the page presents it."""

    facts: ModelFacts
    decoding: DecodingConfig
    """This model's own defaults."""


class Timed(NamedTuple):
    """A translation and how long it took."""

    translation: Translation
    seconds: float
    load_seconds: float
    """0 if the model was open already."""


class Answer(NamedTuple):
    """What the page shows of a translation."""

    notice: str
    """Warnings, as HTML."""
    text: str
    timing: str
    """As HTML."""
    alternatives: dict[str, Any]
    """What was translated: `src`, `model`, where its `sentences` stand, and the `candidates` with
    the tokens of each sentence. The explorer shows the one `selected` and its `sentence`, whatever
    was typed since."""


@dataclasses.dataclass(frozen=True, slots=True)
class Handlers:
    """Everything a visitor can ask for."""

    registry: ModelRegistry
    catalogue: Catalogue = dataclasses.field(default_factory=Catalogue)
    """The Hub's list, asked for no more than once a minute."""
    _fetching: threading.Semaphore = dataclasses.field(
        default_factory=lambda: threading.Semaphore(MAX_FETCHED)
    )

    def suggest(self) -> list[tuple[str, str]]:
        """List the models to pick from, as (label, reference)."""
        return suggest_models(self.registry, self.catalogue)

    def read_search(self, typed: str) -> Search | None:
        """Read what was typed into the picker as a search of the Hub, if it is one."""
        return read_search(self.registry, typed)

    def search(self, search: Search) -> list[tuple[str, str]]:
        """List what the Hub finds, as (label, reference)."""
        return search_models(search, self.catalogue)

    def choose(self, model: str) -> Chosen:
        """Open a model, however long that takes, and say what it is."""
        with self._opening(model):
            translator = self.registry.open(model)
        self._measure(translator)
        name = self.registry.name(model)
        folder = self.registry.folder(name)
        facts = read_facts(name, translator.config, translator.card, folder)
        return Chosen(facts, translator.decoding)

    def find_reverse(self, model: str) -> str:
        """Name a model that translates back; empty where none is known."""
        return find_reverse(self.registry, model)

    def defaults(self, model: str) -> DecodingConfig:
        """Give a model's own options; one that cannot be opened has none of its own."""
        try:
            return self.registry.get(model).decoding
        except HubNMTError:
            return DecodingConfig()

    def translate_text(self, text: str, model: str, **options: Any) -> Timed:
        """Translate what was typed and take the time.

        Args:
            text: one sentence or many.
            model: which model; empty is the one the page opened with.
            options: fields of `DecodingConfig` that differ from this model's defaults.

        Raises:
            HubNMTError: if the text is empty or too long, or an option or the model is refused.
        """
        limits.check_text(text)
        translator, load_seconds = self._open(model)
        with model_turn(limits.CHECK_SECONDS):
            cost_s = limits.check_work(translator, text, options)
        start = time.perf_counter()
        translating = translator.stream(text, n_together=limits.N_TOGETHER, **options)
        translation = run_in_turns(translating, cost_s)
        seconds = time.perf_counter() - start
        if not options:
            limits.note_speed(translator, cost_s, seconds)
        return Timed(translation, seconds, load_seconds)

    def stream_text(self, text: str, model: str, **options: Any) -> Iterator[str | Timed]:
        """Show the translation growing, then give what `translate_text` would.

        Raises:
            HubNMTError: see `translate_text`.
        """
        limits.check_text(text)
        translator, load_seconds = self._open(model)
        with model_turn(limits.CHECK_SECONDS):
            cost_s = limits.check_work(translator, text, options)
        start = time.perf_counter()
        n_together = 1 if len(text) <= MAX_STREAMED_CHARS else limits.N_TOGETHER
        translating = translator.stream(text, n_together=n_together, **options)
        translation = yield from in_turns(translating, cost_s)
        yield Timed(translation, time.perf_counter() - start, load_seconds)

    def _open(self, model: str) -> tuple[Translator, float]:
        """Return a model, and the seconds it took to load: 0 if it was open already."""
        start = time.perf_counter()
        was_open = self.registry.is_open(model)
        with contextlib.nullcontext() if was_open else self._opening(model):
            translator = self.registry.get(model)
        self._measure(translator)
        return translator, 0.0 if was_open else time.perf_counter() - start

    @contextlib.contextmanager
    def _opening(self, model: str) -> Iterator[None]:
        """Wait until a model may be opened; one of the Hub takes no turn while it is fetched."""
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
        """Translate, for the page: the text as it grows, then all that is known about it.

        Args:
            text: see `translate_text`.
            model: see `translate_text`.
            options: what the controls say, in the order of `controls.NAMES`.
        """
        said = decoding_controls.read_options(options)
        shown_at = -PAUSE_S
        for found in self.stream_text(text, model, **said):
            if isinstance(found, Timed):
                yield _answer(text, model, found)
            elif time.perf_counter() - shown_at >= PAUSE_S:
                shown_at = time.perf_counter()
                yield found


def _answer(text: str, model: str, timed: Timed) -> Answer:
    """Say what came out; the alternatives remember what was translated, and with which model."""
    found = timed.translation
    timing = attention.timing_line(
        seconds=timed.seconds,
        n_tokens=len(found.tgt_tokens),
        token_probability=found.token_probability,
        load_seconds=timed.load_seconds,
    )
    return Answer(
        notice=attention.notice(found.warnings, "warning"),
        text=found.text,
        timing=timing,
        alternatives={
            "src": text,
            "model": model,
            "sentences": [list(each.src) for each in found.sentences],
            "candidates": [
                {
                    "text": each.text,
                    "probability": each.token_probability,
                    "rows": [list(row) for row in each.tgt_ids],
                }
                for each in found.n_best
            ],
            "selected": 0,
            "sentence": 0,
        },
    )
