"""The Learn tab: tokens, positions, one layer, next token, beam search and training history."""

import functools
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import (
    QUIET,
    RUNS,
    as_client,
    draw_static,
    error_notice,
    heading,
    line,
)
from hubnmt.ui.gradio.run_record import RunRecord
from hubnmt.ui.gradio.translate_tab import source_texts
from hubnmt.ui.services import learn
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry
from hubnmt.ui.services.text_format import with_message
from hubnmt.ui.services.training_runs import Run

TOKENS = (
    "The model reads tokens, not words. Byte-pair encoding splits a word into bytes and "
    "repeatedly merges the adjacent pair that was most frequent in the training data, until no "
    "learned merge applies."
)
POSITIONS = (
    "Attention by itself ignores word order, so a positional encoding is added to each token's "
    "embedding: sinusoids whose frequency decreases from left to right."
)
LAYER = (
    "The values of this model for the last translated sentence, or an example, step by step "
    "through one attention head and its layer."
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
    "Loss and scores during this model's training, and translations of the same sentences at each "
    "step."
)
NO_RECORD = '<p class="hint">This model has no training record.</p>'


class LearnTab:
    """Components and events of the tab."""

    def __init__(self, registry: ModelRegistry, chosen: ModelFacts) -> None:
        """Create the components for a model."""
        self._registry = registry
        heading("Byte-pair encoding", TOKENS)
        self._text = gr.Textbox(**_text(chosen), lines=1, max_lines=4, elem_id="pieces-text")
        self._merges = draw_static("pieces", "pieces")
        heading("Positional encoding", POSITIONS)
        self._positions = draw_static("positions", "positions")
        heading("Inside one layer", LAYER)
        layer = draw_static("layer", "layer")
        heading("The next token", NEXT)
        next_token = draw_static("next", "next-token")
        heading("Beam search", BEAM)
        beam = draw_static("beam", "beam")
        heading("How it learned", RUN)
        self._no_run = line()
        self._run = RunRecord("history")
        self._model = draw_static("learn", value=chosen.name)
        self._panels = {layer: "layer", next_token: "next", beam: "beam"}

    def wire(self, tab: gr.Tab, model: gr.Dropdown, translated: gr.HTML) -> None:
        """Connect the events; `translated` holds the translation state.

        The contents are computed when the tab is opened, and again for a new model.
        """
        newest: dict[str, Any] = {"trigger_mode": "always_last"}
        text = [self._text, model]
        self._text.change(self._show_merges, text, self._merges, queue=False, **newest, **QUIET)
        opened = gr.on(
            [tab.select, self._model.select],
            as_client(self._draw),
            text,
            [self._merges, self._positions, self._no_run, *self._run.components],
            **RUNS,
        )
        on_sentence = [model, translated]
        opened.then(as_client(self._draw_sentence), on_sentence, [*self._panels], **RUNS)
        for panel, name in self._panels.items():
            compute = as_client(functools.partial(self._compute, name))
            panel.select(compute, panel, panel, **newest, **RUNS)

    def describe(self, chosen: ModelFacts) -> dict[Any, Any]:
        """Return the components that depend on the model, with their values."""
        return {self._text: gr.update(**_text(chosen)), self._model: chosen.name}

    def _show_merges(self, text: str, model: str) -> dict[str, Any]:
        try:
            return learn.merges(self._registry, text, model)
        except HubNMTError as error:
            return with_message({}, error)

    def _draw(self, text: str, model: str) -> dict[Any, Any]:
        """Update the sections on the model itself."""
        run, positions = None, None
        try:
            positions = learn.positions(self._registry, model)
            run = learn.find_model_run(self._registry, model)
            said = "" if run else NO_RECORD
        except HubNMTError as error:
            said = error_notice(error)
        shown = {self._merges: self._show_merges(text, model), self._positions: positions}
        return shown | {self._no_run: said} | self._run.show(run or Run([], []))

    def _draw_sentence(self, model: str, translated: dict[str, Any] | None) -> list[Any]:
        """Update the sections on one sentence."""
        try:
            subject = learn.find_subject(self._registry, model, translated)
        except HubNMTError as error:
            return [with_message({}, error)] * len(self._panels)
        if subject is None:
            return [{}] * len(self._panels)
        return [self._compute(name, {"subject": subject}) for name in self._panels.values()]

    def _compute(self, name: str, value: Any) -> dict[str, Any]:
        """Compute what a panel shows; an error becomes its `message`."""
        value = value if isinstance(value, dict) else {}
        subject = {"subject": value.get("subject")}
        try:
            return subject | learn.compute_panel(self._registry, name, value | subject)
        except HubNMTError as error:
            return with_message(subject, error)


def _text(chosen: ModelFacts) -> dict[str, Any]:
    first = next(iter(examples(chosen.src_lang, chosen.measured_on)), "")
    return source_texts(chosen) | {"value": first, "placeholder": "Type text to tokenize"}
