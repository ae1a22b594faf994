"""The Learn tab: tokenization, positional encoding, tensor shapes and training history."""

from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import (
    QUIET,
    RUNS,
    draw_static,
    error_notice,
    heading,
    line,
    on_model,
    public_message,
)
from hubnmt.ui.gradio.translate_tab import source_texts
from hubnmt.ui.html import results
from hubnmt.ui.html.attention import sentence
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.translate import Chosen, Handlers

PIECES = (
    "The model reads subwords, not words. Byte-pair encoding splits a word into bytes and "
    "repeatedly merges the adjacent pair that was most frequent in the training data, until no "
    "learned merge applies."
)
POSITIONS = (
    "Attention by itself ignores word order, so a positional encoding is added to each token's "
    "embedding: sinusoids whose frequency decreases from left to right."
)
NETWORK = (
    "The stages of the network for the last translated sentence, with the shapes of their output "
    "tensors and, on the right, their number of parameters."
)
RUN = "Training and validation loss, validation scores, and sample translations during training."


class LearnTab:
    """Components and events of the tab."""

    def __init__(self, lessons: Lessons, handlers: Handlers, chosen: Chosen) -> None:
        """Create the components for a model."""
        self._lessons, self._handlers = lessons, handlers
        heading("Byte-pair encoding", PIECES)
        self._text = gr.Textbox(**_text(chosen), lines=1, max_lines=4, elem_id="pieces-text")
        self._pieces = draw_static("pieces", "pieces")
        heading("Positional encoding", POSITIONS)
        self._positions = draw_static("positions", "positions")
        heading("Network and tensor shapes", NETWORK)
        self._network = line(elem_id="network")
        heading("Training", RUN)
        with gr.Row(visible=lessons.registry.allow_local, elem_id="run-row"):
            self._folder = gr.Textbox(label="Run folder", placeholder="runs/my-run", max_lines=1)
            self._show = gr.Button("Show", variant="secondary", elem_id="run-show")
        self._run = line(elem_id="run")

    def wire(self, tab: gr.Tab, model: gr.Dropdown, translated: gr.HTML) -> None:
        """Connect the events.

        Args:
            tab: this tab; its contents are computed when it is opened.
            model: component with the model reference.
            translated: the alternatives, which hold the translation state.
        """
        self._text.change(
            self._show_pieces,
            [self._text, model],
            self._pieces,
            trigger_mode="always_last",
            queue=False,
            **QUIET,
        )
        drawn = [self._pieces, self._positions, self._network, self._run]
        tab.select(on_model(self._draw), [self._text, model, translated], drawn, **RUNS)
        gr.on(
            [self._show.click, self._folder.submit],
            self._show_run,
            self._folder,
            self._run,
            **RUNS,
        )

    @property
    def described(self) -> list[Any]:
        """Components that depend on the model; `describe` returns their values."""
        return [self._text]

    def describe(self, chosen: Chosen) -> list[Any]:
        """Return the components' values for a model."""
        return [gr.Textbox(**_text(chosen))]

    def _show_pieces(self, text: str, model: str) -> dict[str, Any]:
        try:
            return self._lessons.pieces(text, model)
        except HubNMTError as error:
            return {"message": sentence(public_message(error))}

    def _draw(self, text: str, model: str, translated: dict[str, Any] | None) -> tuple[Any, ...]:
        """Update all sections; an error of the model itself is shown once."""
        pieces = self._show_pieces(text, model)
        try:
            positions = self._lessons.positions(model)
        except HubNMTError as error:
            return pieces, None, error_notice(error), ""
        return pieces, positions, self._network_for(model, translated), self._run_of(model)

    def _network_for(self, model: str, translated: dict[str, Any] | None) -> str:
        try:
            found = self._lessons.last_anatomy(self._handlers, model, translated)
        except HubNMTError as error:
            return error_notice(error)
        nothing = '<p class="hint">Translate a sentence in the Translate tab first.</p>'
        return results.diagram(found) if found else nothing

    def _run_of(self, model: str) -> str:
        try:
            found = self._lessons.run_of(model)
        except HubNMTError as error:
            return error_notice(error)
        nothing = '<p class="hint">This model has no training record.</p>'
        return results.run(found) if found else nothing

    def _show_run(self, folder: str) -> str:
        try:
            return results.run(self._lessons.run_at(folder))
        except HubNMTError as error:
            return error_notice(error)


def _text(chosen: Chosen) -> dict[str, Any]:
    first = next(iter(examples(chosen.facts.src_lang, chosen.facts.measured_on)), "")
    return source_texts(chosen) | {"value": first, "placeholder": "Type text to tokenize"}
