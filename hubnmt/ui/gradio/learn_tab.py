"""The Learn tab: subwords, positions, network, next token, beam search and training history."""

from collections.abc import Callable
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
from hubnmt.ui.html import results, training_run
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.text_format import sentence
from hubnmt.ui.services.training_runs import Run, samples_figure
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
LAYER = (
    "The values of this model for the same sentence, step by step through one attention head and "
    "its layer."
)
NEXT = (
    "The decoder predicts one token at a time. Select a token of the translation to see the ten "
    "most probable ones at its place; temperature, top-k and top-p change what sampling draws from."
)
BEAM = (
    "Beam search continues several hypotheses at once. At each step the best continuations of all "
    "of them are ranked; the beam keeps the best and drops the others. The search uses the model's "
    "own decoding options."
)
RUN = (
    "Training and validation loss, scores, the objective and the learning rate of this model's "
    "training, and translations of the same sentences at each step."
)
NO_RECORD = '<p class="hint">This model has no training record.</p>'


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
        heading("Inside one layer", LAYER)
        self._layer = draw_static("layer", "layer")
        heading("The next token", NEXT)
        self._next = draw_static("next", "next-token")
        heading("Beam search", BEAM)
        self._beam = draw_static("beam", "beam")
        heading("How it learned", RUN)
        with gr.Row(visible=lessons.registry.allow_local, elem_id="run-row"):
            self._folder = gr.Textbox(label="Run folder", placeholder="runs/my-run", max_lines=1)
            self._show = gr.Button("Show", variant="secondary", elem_id="run-show")
        self._run = line(elem_id="run")
        self._samples = draw_static("history", "history")

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
        panels = [self._layer, self._next, self._beam]
        drawn = [self._pieces, self._positions, self._network, self._run, self._samples]
        opened = tab.select(on_model(self._draw), [self._text, model, translated], drawn, **RUNS)
        opened.then(on_model(self._draw_panels), [model, translated], panels, **RUNS)
        computes = (self._lessons.values, self._lessons.next_token, self._lessons.beam)
        for panel, compute in zip(panels, computes, strict=True):
            panel.select(
                on_model(_in_panel(compute)), panel, panel, trigger_mode="always_last", **RUNS
            )
        gr.on(
            [self._show.click, self._folder.submit],
            self._show_run,
            self._folder,
            [self._run, self._samples],
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
        """Update the first and the last sections; an error of the model itself is shown once."""
        pieces = self._show_pieces(text, model)
        try:
            positions = self._lessons.positions(model)
        except HubNMTError as error:
            return pieces, None, error_notice(error), "", None
        return pieces, positions, self._network_for(model, translated), *self._run_of(model)

    def _draw_panels(self, model: str, translated: dict[str, Any] | None) -> list[Any]:
        """Update the sections on one sentence."""
        computes = (self._lessons.values, self._lessons.next_token, self._lessons.beam)
        try:
            subject = self._lessons.subject(self._handlers, model, translated)
        except HubNMTError as error:
            return [{"message": sentence(public_message(error))}] * len(computes)
        if subject is None:
            return [{}] * len(computes)
        return [_in_panel(compute)({"subject": subject}) for compute in computes]

    def _network_for(self, model: str, translated: dict[str, Any] | None) -> str:
        try:
            found = self._lessons.last_anatomy(self._handlers, model, translated)
        except HubNMTError as error:
            return error_notice(error)
        nothing = '<p class="hint">Translate a sentence in the Translate tab first.</p>'
        return results.diagram(found) if found else nothing

    def _run_of(self, model: str) -> tuple[str, dict[str, Any] | None]:
        return _show(lambda: self._lessons.run_of(model))

    def _show_run(self, folder: str) -> tuple[str, dict[str, Any] | None]:
        return _show(lambda: self._lessons.run_at(folder))


def _show(read: Callable[[], Run | None]) -> tuple[str, dict[str, Any] | None]:
    """Return the charts of a run and the data of its samples."""
    try:
        found = read()
    except HubNMTError as error:
        return error_notice(error), None
    return (training_run.run(found), samples_figure(found)) if found else (NO_RECORD, None)


def _in_panel(compute: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Wrap a computation on a panel's value; an error becomes a `message` in the panel."""

    def answer(value: Any) -> dict[str, Any]:
        value = value if isinstance(value, dict) else {}
        subject = {"subject": value.get("subject")}
        try:
            return subject | compute({**value, **subject})
        except HubNMTError as error:
            return subject | {"message": sentence(public_message(error))}

    return answer


def _text(chosen: Chosen) -> dict[str, Any]:
    first = next(iter(examples(chosen.facts.src_lang, chosen.facts.measured_on)), "")
    return source_texts(chosen) | {"value": first, "placeholder": "Type text to tokenize"}
