"""The Translate tab: source text, translation, examples, decoding options and inspection panels."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.text.languages import language_name
from hubnmt.ui.gradio.events import (
    QUIET,
    RUNS,
    draw_static,
    error_notice,
    line,
    on_model,
)
from hubnmt.ui.gradio.inspect_panels import InspectPanels
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.html.facts import timing_line, warning_notice
from hubnmt.ui.services import limits
from hubnmt.ui.services.decoding_controls import read_options
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.inspection import Inspector
from hubnmt.ui.services.translate import Handlers, PageTranslation, SelectedModel
from hubnmt.ui.services.turns import n_waiting

CLIPBOARD = """
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      const isDone = document.execCommand("copy");
      field.remove();
      return isDone;
    }
  };
  const announceCopied = () => {
    document.querySelector(".announced").textContent = "Copied";
    return "Copied";
  };"""
"""The clipboard API requires localhost or https; otherwise `execCommand` is tried, which some
browsers lack."""

COPY = f"""async (text) => {{{CLIPBOARD}
  if (await copy(text)) return announceCopied();
  const field = document.querySelector("#target textarea");
  field.focus();
  field.select();
  return "Press Ctrl+C";
}}"""

SHARE = f"""async (text, model) => {{{CLIPBOARD}
  const link = `${{location.href.split("#")[0]}}#${{new URLSearchParams({{ model, text }})}}`;
  history.replaceState(null, "", link);
  return (await copy(link)) ? announceCopied() : "See address bar";
}}"""
"""The text is in the URL fragment, which browsers do not send to the server."""

SWAP_PREFIX = """(prefix) => {
  const clear = document.querySelector("#clear");
  [prefix, clear.value] = [clear.value, prefix];
  return prefix;
}"""
"""Clears the forced prefix, or restores it; the button holds the other one."""

EDITED_PREFIX = "() => document.querySelector('#target').dataset.prefix"
"""Takes over what `assets/typing.js` reads from the edited translation."""

SWAP = "({ reverse }, translation, text) => [reverse, translation || text]"

ASK = "(text, model) => ({ given: { text, model } })"
"""Asks `assets/typing.js` to translate a text that was not typed."""

RESET_LABEL = "() => new Promise((done) => setTimeout(done, 1500, 'NAME'))"
"""Restores a button's label after a confirmation."""

OPEN = """(text, model) => {
  const link = new URLSearchParams(location.hash.slice(1));
  const kept = JSON.parse(sessionStorage.getItem("hubnmt-text") ?? "{}");
  const fields = link.has("text") || link.has("model") ? Object.fromEntries(link) : kept;
  const isListed = NAMES.includes(fields.model);
  if (fields.model && !isListed) {
    const told = document.querySelector(".typing .told");
    told.textContent =
      `The model ${fields.model} cannot be opened by a link: ${model} translates.MORE`;
    told.hidden = false;
  }
  const given = "text" in fields ? [...fields.text].slice(0, LIMIT).join("") : text;
  return [given, isListed ? fields.model : model];
}"""
"""Applies the text and model of a link, or those before a reload. The text is truncated between
code points. Only the page's listed models are opened, so that a link cannot trigger a download."""

MORE = " Open it under More models."


class TranslateTab:
    """Components and events of the tab."""

    def __init__(self, handlers: Handlers, chosen: SelectedModel) -> None:
        """Create the components for a model."""
        self._handlers = handlers
        self._place_texts(chosen)
        self.notice = line()
        self._examples = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            label="Examples",
            elem_id="examples",
            **_examples(chosen),
        )
        self.options = OptionsPanel(chosen.decoding)
        self._panels = InspectPanels(Inspector(handlers.registry))
        self.alternatives = self._panels.alternatives

    def _place_texts(self, chosen: SelectedModel) -> None:
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

    def wire(self, model: gr.Dropdown) -> None:
        """Connect the events; `model` contains the model reference."""
        options = self.options.components
        answered = [self.notice, self._target, self._timing, *self._panels.state]
        text_of = [self.source, model]
        filled = self._examples.click(
            lambda row: row[0], self._examples, self.source, queue=False, **QUIET
        )
        filled.success(None, text_of, self._typing, js=ASK, **QUIET)
        translating = self._typing.submit(
            on_model(self._translate, replaces="text"),
            [*text_of, *options],
            self._typing,
            trigger_mode="multiple",
            **RUNS,
        )
        translating.failure(None, None, self._typing, js="() => ({})", **QUIET)
        shown = self._typing.input(
            None, self._typing, answered, js="(answer) => answer.shown", **QUIET
        )
        self._look(shown.then, is_new=False)
        explored = self._panels.explore_on(self._typing.select)
        js = "() => ({ explored: Date.now() })"
        explored.then(None, None, self._typing, js=js, **QUIET)
        steered = self._panels.wire(self._target, self.options, self._look)
        # A steered translation that comes after a newer text would replace the newer translation.
        self._typing.submit(None, None, None, cancels=[steered], **QUIET)
        blank = "() => ['', '', '', null, null, null, null, null]"
        self._typing.clear(
            None,
            None,
            [*answered, *self._panels.components],
            js=blank,
            cancels=[explored, steered],
            **QUIET,
        )
        prefix = self.options.prefix
        self._typing.click(None, prefix, prefix, js=SWAP_PREFIX, **QUIET)
        edited = self._typing.edit(None, None, prefix, js=EDITED_PREFIX, **QUIET)
        self._ask_again(edited.then)
        self._wire_copies(model)
        self.options.wire(self._handlers.defaults, model, self._ask_again)

    def _ask_again(self, event: Any) -> None:
        event(None, None, self._typing, js="() => ({ changed: Date.now() })", **QUIET)

    def _look(self, event: Any, *, is_new: bool) -> None:
        js = f"() => ({{ look: Date.now(), isNew: {json.dumps(is_new)} }})"
        event(None, None, self._typing, js=js, **QUIET)

    def _wire_copies(self, model: gr.Dropdown) -> None:
        for button, given, js in (
            (self._copy, [self._target], COPY),
            (self._link, [self.source, model], SHARE),
        ):
            copied = button.click(None, given, button, js=js, **QUIET)
            copied.then(None, None, button, js=RESET_LABEL.replace("NAME", button.value), **QUIET)

    def wire_swap(self, languages: gr.HTML, model: gr.Dropdown) -> None:
        """Move the translation to the source and open the reverse model, on a click."""
        texts = [self._target, self.source]
        languages.click(None, [languages, *texts], [model, self.source], js=SWAP, **QUIET)

    @property
    def described(self) -> list[Any]:
        """Components that depend on the model; `describe` returns their values."""
        return [
            self.source,
            self._target,
            self._examples,
            self._typing,
            *self.options.described,
        ]

    def describe(self, chosen: SelectedModel) -> list[Any]:
        """Return the components' values for a model."""
        return [
            gr.Textbox(**source_texts(chosen, enter="enter")),
            gr.Textbox(**_target(chosen)),
            gr.Dataset(**_examples(chosen)),
            _given(chosen),
            *self.options.describe(chosen),
        ]

    def open_link(self, model: gr.Dropdown, demo: gr.Blocks) -> None:
        """Initialize a page opened from a link with its text and model."""
        names = json.dumps(self._handlers.registry.names)
        js = OPEN.replace("NAMES", names).replace("LIMIT", str(limits.MAX_TEXT_CHARS))
        js = js.replace("MORE", MORE if self._handlers.registry.allow_hub else "")
        both = [self.source, model]
        opened = demo.load(None, both, both, js=js, **QUIET)
        opened.then(None, both, self._typing, js=ASK, **QUIET)

    def _translate(self, text: str, model: str, *options: Any) -> Iterator[dict[str, Any]]:
        """Stream the translation; `shown` are the values of the components that show it.

        It ends the one before, also for a blank text: Gradio's `cancels` is refused while the
        request to be cancelled has no answer yet.
        """
        asked = {"src": text, "model": model}
        try:
            for answer in self._handlers.translate_page(text, model, **read_options(options)):
                if isinstance(answer, PageTranslation):
                    found = answer.timed.translation
                    warnings, timing = warning_notice(answer), timing_line(answer.timed)
                    state = answer.alternatives
                    yield {
                        **asked,
                        "shown": [warnings, found.text, timing, state, state],
                        "said": found.text,
                        "n_waiting": n_waiting(),
                        "better": answer.better_language,
                    }
                else:
                    yield {**asked, "shown": ["", answer]}
        except HubNMTError as error:
            yield {**asked, "shown": [error_notice(error), "", "", None, None], "said": ""}


def source_texts(chosen: SelectedModel, *, enter: Literal["enter", "go"] = "go") -> dict[str, Any]:
    """Return the properties of a source text field for a model.

    Args:
        chosen: the model.
        enter: what the Enter key of a phone says.
    """
    language = language_name(chosen.facts.src_lang)
    return {
        "label": language,
        "placeholder": f"Type or paste {language} text",
        "html_attributes": gr.InputHTMLAttributes(
            lang=chosen.facts.src_lang, enterkeyhint=enter, autocomplete="off"
        ),
    }


def _target(chosen: SelectedModel) -> dict[str, Any]:
    return {
        "label": language_name(chosen.facts.tgt_lang),
        "placeholder": "The translation appears here",
        "html_attributes": gr.InputHTMLAttributes(lang=chosen.facts.tgt_lang),
    }


def _given(chosen: SelectedModel) -> dict[str, Any]:
    return {"given": {"model": chosen.facts.name, "limit": limits.MAX_TEXT_CHARS}}


def _examples(chosen: SelectedModel) -> dict[str, Any]:
    samples = [[text] for text in examples(chosen.facts.src_lang, chosen.facts.measured_on)]
    return {"samples": samples, "visible": bool(samples)}
