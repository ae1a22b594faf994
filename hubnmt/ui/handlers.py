"""What the page does, as functions that need no server.

Takes what a visitor typed and chose, gives what the page shows. A request that cannot be met raises
`HubNMTError`; `layout` says it in the page. Must not know Gradio.
"""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from hubnmt.config import DecodingConfig
from hubnmt.errors import HubNMTError
from hubnmt.hub.listing import Catalogue
from hubnmt.translation import Translation
from hubnmt.translator import Translator
from hubnmt.ui import controls, figures, limits
from hubnmt.ui.facts import ModelFacts, read_facts
from hubnmt.ui.picker import Search, find_reverse, read_search, search_models, suggest_models
from hubnmt.ui.registry import ModelRegistry

PAUSE_S = 0.05
"""Between two sights of a growing translation: faster than reading, slow enough to send."""

MAX_STREAMED_CHARS = 1_000
"""A longer text grows by sentences, not by words: side by side they take a fifth of the time."""
N_TOGETHER = 32
"""Sentences of a long text that are searched side by side."""


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
        translator = self.registry.open(model)
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
        limits.check_work(translator, text, options)
        start = time.perf_counter()
        translation = translator.translate(text, **options)
        return Timed(translation, time.perf_counter() - start, load_seconds)

    def stream_text(self, text: str, model: str, **options: Any) -> Iterator[str | Timed]:
        """Show the translation growing, then give what `translate_text` would.

        Raises:
            HubNMTError: see `translate_text`.
        """
        limits.check_text(text)
        translator, load_seconds = self._open(model)
        limits.check_work(translator, text, options)
        start = time.perf_counter()
        n_together = 1 if len(text) <= MAX_STREAMED_CHARS else N_TOGETHER
        translation = yield from translator.stream(text, n_together=n_together, **options)
        yield Timed(translation, time.perf_counter() - start, load_seconds)

    def _open(self, model: str) -> tuple[Translator, float]:
        """Return a model, and the seconds it took to load: 0 if it was open already."""
        start = time.perf_counter()
        was_open = self.registry.is_open(model)
        translator = self.registry.get(model)
        return translator, 0.0 if was_open else time.perf_counter() - start

    def translate_page(self, text: str, model: str, *options: Any) -> Iterator[str | Answer]:
        """Translate, for the page: the text as it grows, then all that is known about it.

        Args:
            text: see `translate_text`.
            model: see `translate_text`.
            options: what the controls say, in the order of `controls.NAMES`.
        """
        said = controls.read_options(options)
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
    timing = figures.timing_line(
        seconds=timed.seconds,
        n_tokens=len(found.tgt_tokens),
        token_probability=found.token_probability,
        load_seconds=timed.load_seconds,
    )
    return Answer(
        notice=figures.notice(found.warnings, "warning"),
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
