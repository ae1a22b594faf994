"""Look inside and steer: what the page does with a translation, as functions that need no server.

Takes the page's subject (see `subject`), gives what the explorer, the steering row and the head
switches draw. A request that cannot be met becomes a `message` in what is drawn, because it belongs
where the visitor clicked. Must not know Gradio, torch or HTML.
"""

import dataclasses
import itertools
import math
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from hubnmt.analysis.head_ablation import PARTS, Head, without_heads
from hubnmt.attention.maps import Attention
from hubnmt.config import ModelConfig
from hubnmt.errors import HubNMTError, InputError
from hubnmt.pipeline.assemble import decode_line
from hubnmt.text.graphemes import number_words
from hubnmt.translator import Translator
from hubnmt.ui.html import attention
from hubnmt.ui.services import limits
from hubnmt.ui.services.compare import mark_differences
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import Subject, read_index

N_CHOICES = 6
"""Alternatives at one place: more are hardly probable."""

MAX_SHOWN_TOKENS = 60
"""Tokens of an alternative behind its place: what a glance takes in, and far less work than the
whole rest of a long sentence, six times over. A click completes it."""

MAX_SILENCED = 2
"""Translators with heads switched off that are kept in memory."""

MAX_SILENCED_PARAMETERS = 100_000_000
"""A larger model is not copied for an experiment."""

CLOSING = frozenset(".,;:!?…।)]}»”’%")
"""Marks that stand close to the word before them."""


class Seen(NamedTuple):
    """What the explorer, the steering row and the head switches draw; None draws nothing."""

    figure: dict[str, Any] | None = None
    steering: dict[str, Any] | None = None
    switches: dict[str, Any] | None = None


class Steered(NamedTuple):
    """What becomes of the page when a visitor steers; None leaves a part as it is."""

    text: str | None
    value: dict[str, Any] | None
    figure: dict[str, Any] | None
    steering: dict[str, Any]
    switches: dict[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """The handlers of the lower half of the first tab."""

    registry: ModelRegistry
    _silenced: "OrderedDict[tuple[str, frozenset[Head]], Translator]" = dataclasses.field(
        default_factory=OrderedDict
    )
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def explore(self, value: Any) -> Seen:
        """Look at the chosen sentence.

        What cannot be drawn gives a sentence in its place: the translation still stands.
        """
        if not value:
            return Seen()
        try:
            translator, subject = self._read(value)
            maps = limits.attend_candidate(translator, subject.src, subject.candidate)
        except HubNMTError as error:
            return Seen({"message": attention.sentence(str(error))})
        left_out = limits.leave_out(translator, subject.src, subject.candidate)
        config = translator.config
        figure = attention.explorer_figure(maps, left_out)
        figure["languages"] = [config.src_lang, config.tgt_lang]
        return Seen(figure, _steering(maps, config.tgt_lang), _switches(config))

    def show(self, value: Any) -> tuple[str, Seen]:
        """Put the selected translation into the page: its text, and a look at it."""
        try:
            text = str(value["candidates"][value["selected"]]["text"])
        except (KeyError, IndexError, TypeError):
            return "", Seen()
        return text, self.explore(value)

    def ask(self, value: Any, steering: Any) -> dict[str, Any]:
        """Find what else could stand at the chosen place of the steering row."""
        try:
            translator, subject = self._read(value)
            said = _said_before(subject, steering)
            found = translator.alternatives(
                subject.src, said, N_CHOICES, max_new_tokens=MAX_SHOWN_TOKENS
            )
        except HubNMTError as error:
            return _with_message(steering, error)
        choices = [dataclasses.asdict(each) for each in found]
        said_text = decode_line(said, translator.tgt_tokenizer)
        return {**steering, "said": said_text, "choices": choices, "message": ""}

    def steer(self, value: Any, steering: Any, **options: Any) -> Steered:
        """Take a choice, or complete the visitor's own words, and look at what becomes of it.

        Args:
            value: what was translated.
            steering: the steering row, with the `choice` or what was `typed`.
            options: fields of `DecodingConfig`, of `controls.STEERED`, for the completion.
        """
        try:
            translator, subject = self._read(value)
            row = _steered_row(translator, subject, steering, options)
            changed = subject.replace_row(row, translator)
        except HubNMTError as error:
            return Steered(None, None, None, _with_message(steering, error), None)
        seen = self.explore(changed)
        steering = seen.steering or {}
        return Steered(changed["candidates"][0]["text"], changed, seen.figure, steering, seen[2])

    def switch(self, value: Any, switches: Any) -> dict[str, Any]:
        """Translate the chosen sentence with heads switched off."""
        try:
            translator, subject = self._read(value)
            off = read_heads(switches)
            silent = self._without(value["model"], translator, off) if off else translator
        except HubNMTError as error:
            return _with_message(switches, error)
        before, after = (
            each.translate(subject.src, split=False, guard=False) for each in (translator, silent)
        )
        spans = mark_differences(before.text, after.text)
        log_probs = [
            each.score(subject.src, before.n_best[0], split=False).log_prob
            for each in (translator, silent)
        ]
        answer = {
            "spans": [[list(span) for span in side] for side in spans],
            "log_probs": log_probs,
        }
        return {**switches, "answer": answer, "message": ""}

    def _read(self, value: Any) -> tuple[Translator, Subject]:
        """Open the model that translated, and read what is looked at.

        Raises:
            HubNMTError: if the model is gone, or the page sent nonsense.
        """
        model = value.get("model") if isinstance(value, dict) else None
        translator = self.registry.get(model)  # type: ignore[arg-type]  # it refuses what is no text
        return translator, Subject.read(value, translator)

    def _without(self, model: str, translator: Translator, off: frozenset[Head]) -> Translator:
        """Return the translator without these heads; the one not used for longest is forgotten."""
        if translator.config.n_parameters > MAX_SILENCED_PARAMETERS:
            raise InputError(
                "this model is too large to switch heads off here: more than "
                f"{attention.short_count(MAX_SILENCED_PARAMETERS)} parameters"
            )
        key = self.registry.name(model), off
        with self._lock:
            if key not in self._silenced:
                self._silenced[key] = without_heads(translator, off)
            self._silenced.move_to_end(key)
            while len(self._silenced) > MAX_SILENCED:
                self._silenced.popitem(last=False)
            return self._silenced[key]


def read_heads(switches: Any) -> frozenset[Head]:
    """Read which heads are off.

    Raises:
        InputError: if that is not what this page sends.
    """
    try:
        return frozenset(
            Head(str(part), read_index(layer), read_index(head))
            for part, layer, head in switches["off"]
        )
    except (KeyError, TypeError, ValueError):
        raise InputError("these are no heads; switch them again") from None


def _with_message(value: Any, error: HubNMTError) -> dict[str, Any]:
    return {**(value if isinstance(value, dict) else {}), "message": attention.sentence(str(error))}


def _steering(maps: Attention, language: str) -> dict[str, Any]:
    """Cut a sentence into words to click, each with its probability and its first token."""
    words = maps.by_word()
    _, sizes = maps.tgt.group(number_words)
    begins = itertools.accumulate([0, *sizes[:-1]])
    return {
        "language": language,
        "words": [
            {"text": text, "at": at, "probability": math.exp(min(log_prob, 0))}
            for text, at, log_prob in zip(
                words.tgt.tokens, begins, words.tgt_log_probs, strict=True
            )
        ],
    }


def _said_before(subject: Subject, steering: Any) -> tuple[int, ...]:
    """Return the tokens in front of the chosen place."""
    try:
        at = read_index(steering["words"][read_index(steering["place"])]["at"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError("there is no such word; translate again") from None
    return subject.row[:at]


def _steered_row(
    translator: Translator, subject: Subject, steering: Any, options: dict[str, Any]
) -> tuple[int, ...]:
    """Give the tokens of the sentence as the visitor wants it."""
    said = decode_line(_said_before(subject, steering), translator.tgt_tokenizer)
    typed = str(steering.get("typed") or "").strip()
    if typed:
        begun = " " * (bool(said) and typed[0] not in CLOSING) + typed
        return _complete(translator, subject, said, begun, options)
    try:
        choice = steering["choices"][read_index(steering["choice"])]
        text, is_whole = choice["text"], choice.get("is_whole", True)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        raise InputError("there is no such choice; click a word again") from None
    limits.check_text(text or ".")
    if not is_whole and text.startswith(said):
        return _complete(translator, subject, said, text.removeprefix(said), options)
    return tuple(translator.tgt_tokenizer.encode(text))


def _complete(
    translator: Translator, subject: Subject, said: str, begun: str, options: dict[str, Any]
) -> tuple[int, ...]:
    """Translate the sentence anew, behind what was said and what was begun.

    What was said is as long as the translation that is looked at, at most; only what is new is
    held against the limits.
    """
    search = {**options, "n_best": 1, "sample": False}
    limits.check_work(translator, subject.src, {**search, "prefix": begun})
    found = translator.translate(subject.src, split=False, **{**search, "prefix": said + begun})
    return found.n_best[0].tgt_ids[0]


def _switches(config: ModelConfig) -> dict[str, Any]:
    """Say which heads there are; all of them are on."""
    layers = (config.n_encoder_layers, config.n_decoder_layers, config.n_decoder_layers)
    parts = [[part, n, config.n_heads] for part, n in zip(PARTS, layers, strict=True)]
    return {"parts": parts, "alignment": config.alignment_head, "off": []}
