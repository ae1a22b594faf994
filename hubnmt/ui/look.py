"""Look inside and steer: what the page does with a translation, as functions that need no server.

Takes the page's subject (what was translated, with which model, its n best, and which sentence of
which of them is looked at), gives what the explorer, the steering row and the head switches draw.
Everything a browser sends back is read with suspicion. Must not know Gradio, torch or HTML.
"""

import dataclasses
import itertools
import math
import threading
from collections import OrderedDict
from typing import Any

from hubnmt.attention_map import Attention
from hubnmt.characters import number_words
from hubnmt.errors import HubNMTError, InputError
from hubnmt.join import decode_line
from hubnmt.knock_out import PARTS, Head, without_heads
from hubnmt.translation import Candidate
from hubnmt.translator import Translator
from hubnmt.ui import figures, limits
from hubnmt.ui.compare import mark_differences
from hubnmt.ui.registry import ModelRegistry

N_CHOICES = 6
"""Alternatives at one place: more are hardly probable."""

MAX_SILENCED = 2
"""Translators with heads switched off that are kept in memory."""

MAX_SILENCED_PARAMETERS = 100_000_000
"""A larger model is not copied for an experiment."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at."""

    value: dict[str, Any]
    """As the page keeps it; see `Answer.alternatives`."""
    src: str
    """The chosen sentence of the source."""
    sentence: int
    """Its number, from 0."""
    rows: tuple[tuple[int, ...], ...]
    """Target tokens of every sentence of the chosen alternative."""

    @property
    def candidate(self) -> Candidate:
        """The chosen sentence's translation, as it was searched."""
        return Candidate("", 0.0, (self.rows[self.sentence],))


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """The handlers of the lower half of the first tab."""

    registry: ModelRegistry
    _silenced: "OrderedDict[tuple[str, frozenset[Head]], Translator]" = dataclasses.field(
        default_factory=OrderedDict
    )
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def explore(self, value: Any) -> tuple[Any, Any, Any]:
        """Give what explorer, steering row and head switches draw of the chosen sentence.

        A text that cannot be drawn gives a sentence in its place: its translation still stands.
        """
        if not value:
            return None, None, None
        try:
            translator = self.registry.get(value["model"])
            subject = read_subject(value, translator)
            maps = limits.attend_candidate(translator, subject.src, subject.candidate)
        except HubNMTError as error:
            return {"message": figures.sentence(str(error))}, None, None
        left_out = limits.leave_out(translator, subject.src, subject.candidate)
        figure = figures.explorer_figure(maps, left_out)
        return figure, _steering(maps), _switches(translator)

    def show(self, value: Any) -> tuple[Any, ...]:
        """Put the selected alternative into the page: its text, then as `explore`."""
        return value["candidates"][value["selected"]]["text"], *self.explore(value)

    def ask(self, value: Any, steering: Any) -> dict[str, Any]:
        """Find what else could stand at the chosen place of the steering row.

        Raises:
            HubNMTError: if the model is gone, or the page sent nonsense.
        """
        translator = self.registry.get(value["model"])
        subject = read_subject(value, translator)
        said = _said_before(subject, steering)
        found = translator.alternatives(subject.src, said, N_CHOICES)
        choices = [
            {"piece": each.piece, "probability": each.probability, "text": each.text}
            for each in found
        ]
        return {**steering, "choices": choices}

    def steer(self, value: Any, steering: Any) -> tuple[Any, ...]:
        """Take a choice, or complete the visitor's own words, and show what becomes of it.

        Returns:
            the text, the subject with the new translation in front, then as `explore`.

        Raises:
            HubNMTError: if the model is gone, or the page sent nonsense.
        """
        translator = self.registry.get(value["model"])
        subject = read_subject(value, translator)
        row = _steered_row(translator, subject, steering)
        rows = [*subject.rows]
        rows[subject.sentence] = row
        text = _join(value, [decode_line(each, translator.tgt_tokenizer) for each in rows])
        steered = {"text": text, "score": None, "rows": [list(each) for each in rows]}
        others = [each for each in value["candidates"] if each["text"] != text]
        changed = {**value, "candidates": [steered, *others], "selected": 0}
        return text, changed, *self.explore(changed)

    def switch(self, value: Any, switches: Any) -> dict[str, Any]:
        """Translate the chosen sentence with heads switched off.

        Raises:
            HubNMTError: if there is no such head, or the model is too large to be copied.
        """
        translator = self.registry.get(value["model"])
        subject = read_subject(value, translator)
        off = read_heads(switches)
        if not off:
            return {**switches, "result": None}
        silent = self._without(value["model"], translator, off)
        before = translator.translate(subject.src)
        after = silent.translate(subject.src)
        _, spans = mark_differences(before.text, after.text)
        return {
            **switches,
            "result": {
                "before": before.text,
                "spans": [list(span) for span in spans],
                "log_probs": [
                    each.score(subject.src, before.n_best[0]).log_prob
                    for each in (translator, silent)
                ],
            },
        }

    def _without(self, model: str, translator: Translator, off: frozenset[Head]) -> Translator:
        """Return the translator without these heads; the one not used for longest is forgotten."""
        if translator.config.n_parameters > MAX_SILENCED_PARAMETERS:
            raise InputError(
                "this model is too large to switch heads off here: more than "
                f"{figures.short_count(MAX_SILENCED_PARAMETERS)} parameters"
            )
        key = self.registry.name(model), off
        with self._lock:
            if key not in self._silenced:
                self._silenced[key] = without_heads(translator, off)
            self._silenced.move_to_end(key)
            while len(self._silenced) > MAX_SILENCED:
                self._silenced.popitem(last=False)
            return self._silenced[key]


def read_subject(value: Any, translator: Translator) -> Subject:
    """Read what the page says is looked at.

    Raises:
        InputError: if it is not what this page sends.
    """
    try:
        number = _index(value["sentence"])
        start, end = (_index(place) for place in value["sentences"][number])
        rows = value["candidates"][_index(value["selected"])]["rows"]
        rows = tuple(tuple(_index(token_id) for token_id in row) for row in rows)
        is_whole = len(rows) == len(value["sentences"])
        src = value["src"][start:end]
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError("this is no translation of the page; translate again") from None
    tokenizer = translator.tgt_tokenizer
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
    ids = set(itertools.chain.from_iterable(rows))
    if not is_whole or ids & special or max(ids, default=0) >= tokenizer.vocab_size:
        raise InputError("this translation is of another model; translate again")
    limits.check_text(src)
    return Subject(value, src, number, rows)


def _index(value: Any) -> int:
    """Read a number from 0 on.

    Raises:
        ValueError: if it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


def read_heads(switches: Any) -> frozenset[Head]:
    """Read which heads are off.

    Raises:
        InputError: if that is not what this page sends.
    """
    try:
        off = [Head(str(part), _index(layer), _index(head)) for part, layer, head in switches["off"]]
    except (KeyError, TypeError, ValueError):
        raise InputError("these are no heads; switch them again") from None
    return frozenset(off)


def _steering(maps: Attention) -> dict[str, Any]:
    """Cut a sentence into words to click, each with its probability and its first token."""
    words = maps.by_word()
    _, sizes = maps.tgt.group(number_words)
    begins = [0, *itertools.accumulate(sizes)]
    return {
        "words": [
            {"text": text, "at": at, "probability": math.exp(min(log_prob, 0))}
            for text, at, log_prob in zip(words.tgt.tokens, begins, words.tgt_log_probs, strict=False)
        ],
        "place": None,
        "choices": None,
    }


def _said_before(subject: Subject, steering: Any) -> tuple[int, ...]:
    """Return the tokens in front of the chosen place."""
    try:
        at = _index(steering["words"][_index(steering["place"])]["at"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError("there is no such word; translate again") from None
    return subject.rows[subject.sentence][:at]


def _steered_row(translator: Translator, subject: Subject, steering: Any) -> tuple[int, ...]:
    """Give the tokens of the sentence as the visitor wants it."""
    typed = steering.get("typed")
    if typed:
        said = decode_line(_said_before(subject, steering), translator.tgt_tokenizer)
        typed = str(typed).strip()
        # A sentence mark stands close to the word before it, and a word does not.
        prefix = said + " " * (bool(said) and typed[:1].isalnum()) + typed
        limits.check_work(translator, subject.src, {"prefix": prefix})
        options: dict[str, Any] = {"n_best": 1, "sample": False, "prefix": prefix}
        found = translator.translate(subject.src, split=False, **options)
        return found.n_best[0].tgt_ids[0]
    try:
        text = steering["choices"][_index(steering["choice"])]["text"]
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError("there is no such choice; click a word again") from None
    limits.check_text(text or ".")
    return tuple(translator.tgt_tokenizer.encode(text))


def _join(value: dict[str, Any], texts: list[str]) -> str:
    """Put sentences between the white space of the source."""
    src, joined, behind = value["src"], "", 0
    for (start, end), text in zip(value["sentences"], texts, strict=True):
        joined += src[behind:start] + text
        behind = end
    return joined + src[behind:]


def _switches(translator: Translator) -> dict[str, Any]:
    """Say which heads there are; all of them are on."""
    config = translator.config
    layers = (config.n_encoder_layers, config.n_decoder_layers, config.n_decoder_layers)
    parts = [[part, n, config.n_heads] for part, n in zip(PARTS, layers, strict=True)]
    return {"parts": parts, "off": [], "result": None}
