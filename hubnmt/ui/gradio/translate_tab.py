"""The Translate tab: source text, translation, examples, decoding options and inspection panels."""

import functools
import json
from collections.abc import Iterator
from typing import Any

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
    said_in_page,
)
from hubnmt.ui.gradio.inspect_panels import InspectPanels
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.html.facts import timing_line, warning_notice
from hubnmt.ui.services import limits
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.look import Look
from hubnmt.ui.services.translate import Answer, Chosen, Handlers

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
  };"""
"""The clipboard API requires localhost or https; otherwise `execCommand` is tried, which some
browsers lack."""

COPY = f"""async (text) => {{{CLIPBOARD}
  if (await copy(text)) return "Copied";
  const field = document.querySelector("#target textarea");
  [field.disabled, field.readOnly] = [false, true]; // text in a disabled field cannot be selected
  field.focus();
  field.select();
  return "Press Ctrl+C";
}}"""

SHARE = f"""async (text, model) => {{{CLIPBOARD}
  const link = `${{location.href.split("#")[0]}}#${{new URLSearchParams({{ model, text }})}}`;
  history.replaceState(null, "", link);
  return (await copy(link)) ? "Copied" : "See address bar";
}}"""
"""The text is in the URL fragment, which browsers do not send to the server."""

RESET_LABEL = "() => new Promise((done) => setTimeout(done, 1500, 'NAME'))"
"""Restores a button's label after a confirmation."""

OPEN = """(text, model) => {
  const fields = new URLSearchParams(location.hash.slice(1));
  const isListed = NAMES.includes(fields.get("model"));
  const given = fields.has("text") ? [...fields.get("text")].slice(0, LIMIT).join("") : text;
  return [given, isListed ? fields.get("model") : model];
}"""
"""Applies the text and model of a link. The text is truncated between code points. Only the page's
listed models are opened, so that a link cannot trigger a download."""


class TranslateTab:
    """Components and events of the tab."""

    def __init__(self, handlers: Handlers, chosen: Chosen) -> None:
        """Create the components for a model."""
        self._handlers = handlers
        self.notice = line()
        self._place_texts(chosen)
        self._examples = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            label="Examples",
            elem_id="examples",
            **_examples(chosen),
        )
        self.options = OptionsPanel(chosen.decoding)
        self.alternatives = draw_static("alternatives")
        self._panels = InspectPanels(Look(handlers.registry))

    def _place_texts(self, chosen: Chosen) -> None:
        with gr.Row(elem_id="texts"):
            with gr.Column(min_width=300):
                # Enter submits only with `lines=1`; the style sheet sets the height.
                self.source = gr.Textbox(
                    **source_texts(chosen), lines=1, max_lines=14, autofocus=True, elem_id="source"
                )
                with gr.Row(elem_id="actions"):
                    self._go = gr.Button("Translate", variant="primary", elem_id="go")
                    self._swap = gr.Button(
                        "⇄ Swap",
                        variant="secondary",
                        elem_id="swap",
                        visible=bool(self._handlers.find_reverse(chosen.facts.name)),
                    )
                    self._clear = gr.Button("Clear", variant="secondary", elem_id="clear")
            with gr.Column(min_width=300):
                self._target = gr.Textbox(
                    **_target(chosen), lines=1, max_lines=14, interactive=False, elem_id="target"
                )
                with gr.Row(elem_id="result"):
                    self._timing = line()
                    # Gradio's own copy button would hide the text field's label.
                    self._copy = gr.Button("Copy", variant="secondary", elem_id="copy")
                    self._link = gr.Button("Link", variant="secondary", elem_id="link")

    def wire(self, model: gr.Dropdown) -> None:
        """Connect the events; `model` contains the model reference."""
        options = self.options.components
        answered = [self.notice, self._target, self._timing, self.alternatives]
        filled = self._examples.click(
            lambda row: row[0], self._examples, self.source, queue=False, **QUIET
        )
        swapped = self._swap.click(
            said_in_page(self._reverse, blank=(gr.skip(), gr.skip())),
            [self._target, model],
            [self.notice, self.source, model],
            **RUNS,
        )
        pressed = functools.partial(gr.on, [self._go.click, self.source.submit])
        running = []
        for trigger in (pressed, filled.then, swapped.then):
            translating = trigger(
                on_model(self._translate),
                [self.source, model, *options],
                answered,
                show_progress_on=self._target,
                **(RUNS | {"show_progress": "minimal"}),
            )
            running += [translating, self._panels.refresh_after(translating, self.alternatives)]
        self._panels.wire(self.alternatives, self._target, self.options)
        everything = [self.source, self.options.prefix, *answered, *self._panels.components]
        blank = "() => ['', '', '', '', '', null, null, null, null]"
        self._clear.click(None, None, everything, js=blank, cancels=running, **QUIET)
        self._wire_copies(model)
        self.options.wire(self._handlers.defaults, model, runs=RUNS, quiet=QUIET)

    def _wire_copies(self, model: gr.Dropdown) -> None:
        for button, given, js in (
            (self._copy, [self._target], COPY),
            (self._link, [self.source, model], SHARE),
        ):
            copied = button.click(None, given, button, js=js, **QUIET)
            copied.then(None, None, button, js=RESET_LABEL.replace("NAME", button.value), **QUIET)

    @property
    def described(self) -> list[Any]:
        """Components that depend on the model; `describe` returns their values."""
        return [self.source, self._target, self._examples, self._swap, *self.options.described]

    def describe(self, chosen: Chosen) -> list[Any]:
        """Return the components' values for a model."""
        return [
            gr.Textbox(**source_texts(chosen)),
            gr.Textbox(**_target(chosen)),
            gr.Dataset(**_examples(chosen)),
            gr.Button(visible=bool(self._handlers.find_reverse(chosen.facts.name))),
            *self.options.describe(chosen.decoding),
        ]

    def open_link(self, model: gr.Dropdown, demo: gr.Blocks) -> None:
        """Initialize a page opened from a link with its text and model."""
        names = json.dumps(self._handlers.registry.names)
        js = OPEN.replace("NAMES", names).replace("LIMIT", str(limits.MAX_TEXT_CHARS))
        both = [self.source, model]
        demo.load(None, both, both, js=js, **QUIET)

    def _reverse(self, translation: str, model: str) -> tuple[Any, ...]:
        """Move the translation to the source and select the reverse model."""
        return "", translation, self._handlers.find_reverse(model) or gr.skip()

    def _translate(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Stream the translation; the panels keep the previous one until it is complete."""
        try:
            for shown in self._handlers.translate_page(*values):
                if isinstance(shown, Answer):
                    found = shown.timed.translation
                    warnings = warning_notice(shown)
                    yield warnings, found.text, timing_line(shown.timed), shown.alternatives
                else:
                    yield "", shown, gr.skip(), gr.skip()
        except HubNMTError as error:
            yield error_notice(error), "", "", None


def source_texts(chosen: Chosen) -> dict[str, Any]:
    """Return the properties of a source text field for a model."""
    language = language_name(chosen.facts.src_lang)
    return {
        "label": language,
        "placeholder": f"Type or paste {language} text, then press Enter",
        "html_attributes": gr.InputHTMLAttributes(
            lang=chosen.facts.src_lang, enterkeyhint="go", autocomplete="off"
        ),
    }


def _target(chosen: Chosen) -> dict[str, Any]:
    return {
        "label": language_name(chosen.facts.tgt_lang),
        "placeholder": "The translation appears here",
        "html_attributes": gr.InputHTMLAttributes(lang=chosen.facts.tgt_lang),
    }


def _examples(chosen: Chosen) -> dict[str, Any]:
    samples = [[text] for text in examples(chosen.facts.src_lang, chosen.facts.measured_on)]
    return {"samples": samples, "visible": bool(samples)}
