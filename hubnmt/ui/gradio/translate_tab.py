"""The Translate tab: texts, examples, decoding options and panels about the translation."""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.text.languages import language_name
from hubnmt.ui.gradio.events import (
    ASSETS,
    QUIET,
    RUNS,
    as_client,
    draw_static,
    error_notice,
    line,
)
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.html.facts import timing_line, warning_notice
from hubnmt.ui.services import limits
from hubnmt.ui.services.decoding_controls import read_options
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.inspection import ask, explore, steer
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, list_pairs
from hubnmt.ui.services.subject import page_state
from hubnmt.ui.services.translate import TimedTranslation, stream_text
from hubnmt.ui.services.turns import TURNS

SCRIPT = (ASSETS / "translate.js").read_text("utf-8")

ASK = "(text, model) => ({ given: { text, model } })"
"""Asks `assets/typing.js` to translate a text that was not typed."""

BLANK = "() => ['', '', '', null, null, null, null]"


def _call(function: str, *more: Any) -> str:
    """Return a listener that calls a function of `assets/translate.js`, with more arguments."""
    arguments = ", ".join(["...values", *map(json.dumps, more)])
    return f"(...values) => {{ {SCRIPT} return {function}({arguments}); }}"


class TranslateTab:
    """Components and events of the tab."""

    def __init__(self, registry: ModelRegistry, chosen: ModelFacts) -> None:
        """Create the components for a model."""
        self._registry = registry
        self._place_texts(chosen)
        self.notice = line()
        self._examples = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            label="Examples",
            elem_id="examples",
            **_examples(chosen),
        )
        self.options = OptionsPanel(chosen.decoding)
        self._place_panels()

    def _place_texts(self, chosen: ModelFacts) -> None:
        with gr.Row(elem_id="texts"):
            with gr.Column(min_width=300):
                # More than one line: the keys of a single one are Gradio's.
                self.source = gr.Textbox(
                    **source_texts(chosen, enter="enter"),
                    lines=2,
                    max_lines=14,
                    autofocus=True,
                    elem_id="source",
                )
                self._typing = draw_static("typing", "typing", _given(chosen))
            with gr.Column(min_width=300):
                self._target = gr.Textbox(
                    **_target(chosen), lines=1, max_lines=14, interactive=True, elem_id="target"
                )
                with gr.Row(elem_id="result"):
                    self._timing = line()
                    # Gradio's own copy button would hide the text field's label.
                    self._copy = gr.Button("Copy", variant="secondary", elem_id="copy")
                    self._link = gr.Button("Copy link", variant="secondary", elem_id="link")

    def _place_panels(self) -> None:
        """Place the panels, which the style sheet hides until there is a translation."""
        self._sentences = draw_static("sentences", "sentences")
        with gr.Tabs(elem_id="inside"):
            with gr.Tab("Alternatives", id="alternatives"):
                self.alternatives = draw_static("alternatives")  # holds the translation state
            with gr.Tab("Steer", id="steer") as steer:
                self._steering = draw_static("steering", "steering")
            with gr.Tab("Look inside", id="look") as look_inside:
                self._explorer = draw_static("explorer", "explorer")
        self._panel_tabs = (steer, look_inside)
        self._panels = [self._explorer, self._steering]

    def wire(self, model: gr.Dropdown) -> None:
        """Connect the events; `model` contains the model reference."""
        translated = [self.notice, self._target, self._timing, self.alternatives, self._sentences]
        text_of = [self.source, model]
        filled = self._examples.click(
            lambda row: row[0], self._examples, self.source, queue=False, **QUIET
        )
        filled.success(None, text_of, self._typing, js=ASK, **QUIET)
        translating = self._typing.submit(
            as_client(self._translate, replaces="text"),
            [*text_of, *self.options.components],
            self._typing,
            trigger_mode="multiple",
            **RUNS,
        )
        translating.failure(None, None, self._typing, js="() => ({})", **QUIET)
        shown = self._typing.input(
            None, self._typing, translated, js="(answer) => answer.shown", **QUIET
        )
        self._look(shown.then, is_new=False)
        explored = self._typing.select(
            as_client(functools.partial(explore, self._registry)),
            self.alternatives,
            self._panels,
            trigger_mode="always_last",
            **RUNS,
        )
        self._tell_typing(explored.then, "explored: Date.now()")
        steered = self._wire_panels()
        # A steered translation that comes after a newer text would replace the newer translation.
        self._typing.submit(None, None, None, cancels=[steered], **QUIET)
        self._typing.clear(
            None, None, [*translated, *self._panels], js=BLANK, cancels=[explored, steered], **QUIET
        )
        prefix = self.options.prefix
        self._typing.click(None, prefix, prefix, js=_call("swapPrefix"), **QUIET)
        # `assets/typing.js` reads the prefix from the edited translation.
        js = "() => document.querySelector('#target').dataset.prefix"
        self._ask_again(self._typing.edit(None, None, prefix, js=js, **QUIET).then)
        for button, given, function in (
            (self._copy, [self._target], "copyTranslation"),
            (self._link, [self.source, model], "copyLink"),
        ):
            copied = button.click(None, given, button, js=_call(function), **QUIET)
            # Restore the label after its confirmation.
            js = f"() => new Promise((done) => setTimeout(done, 1500, '{button.value}'))"
            copied.then(None, None, button, js=js, **QUIET)
        self.options.wire(self._registry, model, self._ask_again)

    def _wire_panels(self) -> Any:
        """Connect the events of the panels, and return the one that steers."""
        state = self.alternatives
        for tab in self._panel_tabs:
            self._look(tab.select, is_new=False)
        js = "(value) => value.candidates[value.selected].text"
        self._look(state.select(None, state, self._target, js=js, **QUIET).then, is_new=True)
        js = "(value, { sentence }) => ({ ...value, sentence })"
        moved = self._sentences.select(None, [state, self._sentences], state, js=js, **QUIET)
        self._look(moved.then, is_new=True)
        asked = as_client(functools.partial(ask, self._registry))
        # The panel ignores outdated answers.
        row = self._steering
        row.select(asked, [state, row], row, trigger_mode="multiple", **RUNS)
        return self._steering.submit(
            as_client(self._steer),
            [state, self._steering, *self.options.components],
            [self._target, state, *self._panels],
            **RUNS,
        )

    def _tell_typing(self, event: Callable[..., Any], fields: str) -> None:
        event(None, None, self._typing, js=f"() => ({{ {fields} }})", **QUIET)

    def _ask_again(self, event: Callable[..., Any]) -> None:
        self._tell_typing(event, "changed: Date.now()")

    def _look(self, event: Callable[..., Any], *, is_new: bool) -> None:
        """Connect an event after which the panels may be outdated; `is_new` says they are."""
        self._tell_typing(event, f"look: Date.now(), isNew: {json.dumps(is_new)}")

    def wire_swap(self, languages: gr.HTML, model: gr.Dropdown) -> None:
        """Move the translation to the source and open the reverse model, on a click."""
        js = "({ reverse }, translation, text) => [reverse, translation || text]"
        texts = [languages, self._target, self.source]
        languages.click(None, texts, [model, self.source], js=js, **QUIET)

    def describe(self, chosen: ModelFacts) -> dict[Any, Any]:
        """Return the components that depend on the model, with their values."""
        return {
            self.source: gr.update(**source_texts(chosen, enter="enter")),
            self._target: gr.update(**_target(chosen)),
            self._examples: gr.update(**_examples(chosen)),
            self._typing: _given(chosen),
            **self.options.describe(chosen),
        }

    def open_link(self, model: gr.Dropdown, demo: gr.Blocks) -> None:
        """Initialize a page opened from a link with its text and model."""
        more = " Open it under More models." if self._registry.allow_hub else ""
        settings = {"names": self._registry.names, "limit": limits.MAX_TEXT_CHARS, "more": more}
        both = [self.source, model]
        opened = demo.load(None, both, both, js=_call("openLink", settings), **QUIET)
        opened.then(None, both, self._typing, js=ASK, **QUIET)

    def _translate(self, text: str, model: str, *options: Any) -> Iterator[dict[str, Any]]:
        """Stream the translation; `shown` are the values of the components that show it.

        It ends the one before, also for a blank text: Gradio's `cancels` is refused while the
        request to be cancelled has no answer yet.
        """
        asked = {"src": text, "model": model}
        search = stream_text(self._registry, text, model, **read_options(options))
        try:
            while True:
                yield {**asked, "shown": ["", next(search)]}
        except StopIteration as end:
            yield asked | self._show(text, model, end.value)
        except HubNMTError as error:
            yield {**asked, "shown": [error_notice(error), "", "", None, None], "said": ""}

    def _show(self, text: str, model: str, timed: TimedTranslation) -> dict[str, Any]:
        found = timed.translation
        known = {src for src, _ in list_pairs(self._registry).values()}
        better = found.detected_language if found.detected_language in known else ""
        state = page_state(text, model, found, self._registry.get(model))
        return {
            "shown": [warning_notice(found, better), found.text, timing_line(timed), state, state],
            "said": found.text,
            "n_waiting": len(TURNS),
            "better": better,
        }

    def _steer(self, state: Any, steering: Any, *options: Any) -> tuple[Any, ...]:
        overrides = read_options(options)
        overrides.pop("prefix", None)  # of the whole text
        steered = steer(self._registry, state, steering, **overrides)
        return tuple(gr.skip() if part is None else part for part in steered)


def source_texts(chosen: ModelFacts, *, enter: Literal["enter", "go"] = "go") -> dict[str, Any]:
    """Return the properties of a source text field; `enter` is what a phone's Enter key says."""
    language = language_name(chosen.src_lang)
    return {
        "label": language,
        "placeholder": f"Type or paste {language} text",
        "html_attributes": gr.InputHTMLAttributes(
            lang=chosen.src_lang, enterkeyhint=enter, autocomplete="off"
        ),
    }


def _target(chosen: ModelFacts) -> dict[str, Any]:
    return {
        "label": language_name(chosen.tgt_lang),
        "placeholder": "The translation appears here",
        "html_attributes": gr.InputHTMLAttributes(lang=chosen.tgt_lang),
    }


def _given(chosen: ModelFacts) -> dict[str, Any]:
    return {"given": {"model": chosen.name, "limit": limits.MAX_TEXT_CHARS}}


def _examples(chosen: ModelFacts) -> dict[str, Any]:
    samples = [[text] for text in examples(chosen.src_lang, chosen.measured_on)]
    return {"samples": samples, "visible": bool(samples)}
