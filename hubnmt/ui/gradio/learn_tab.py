"""The tab that explains: pieces, positions, the network itself, and how it was trained.

Takes `Lessons` and `Handlers`, gives components and their events. Must not know torch.
"""

from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import QUIET, RUNS, draw_static, error_notice, heading, line, on_model
from hubnmt.ui.gradio.translate_tab import source_texts
from hubnmt.ui.html import results
from hubnmt.ui.html.attention import sentence
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.translate import Chosen, Handlers

PIECES = (
    "The model knows no words, only pieces. A word begins as single bytes; the pair that was most "
    "common when the vocabulary was learned is joined, again and again, until none is left."
)
POSITIONS = (
    "Attention alone cannot tell first from last, so every position adds a pattern of its own to "
    "the vector that stands there: waves, fast on the left and slow on the right."
)
NETWORK = (
    "The sentence you translated last, on its way through the network: what each stage makes, the "
    "sizes of those tensors, and on the right how many numbers it has learned."
)
RUN = (
    "How the model was trained: the loss falls, the scores rise, the sentences begin to make sense."
)


class LearnTab:
    """The components of the tab, and their events."""

    def __init__(self, lessons: Lessons, handlers: Handlers, chosen: Chosen) -> None:
        """Place the components, set for a model."""
        self._lessons, self._handlers = lessons, handlers
        heading("Text becomes pieces", PIECES)
        self._text = gr.Textbox(**_text(chosen), lines=1, max_lines=4, elem_id="pieces-text")
        self._pieces = draw_static("pieces", "pieces")
        heading("Where a piece stands", POSITIONS)
        self._positions = draw_static("positions", "positions")
        heading("Inside the network", NETWORK)
        self._network = line(elem_id="network")
        heading("How it learned", RUN)
        with gr.Row(visible=lessons.registry.allow_local, elem_id="run-row"):
            self._folder = gr.Textbox(
                label="Run folder", placeholder="runs/my-run, as training made it", max_lines=1
            )
            self._show = gr.Button("Show", variant="secondary", elem_id="run-show")
        self._run = line(elem_id="run")

    def wire(self, tab: gr.Tab, model: gr.Dropdown, translated: gr.HTML) -> None:
        """Connect every component to its handler.

        Args:
            tab: this one; its drawings wait until it is opened.
            model: where the reference stands.
            translated: the alternatives, which tell what was translated last.
        """
        self._text.change(
            self._take_apart,
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
        """The components that change with the model; `describe` gives their values."""
        return [self._text]

    def describe(self, chosen: Chosen) -> list[Any]:
        """Say what the tab shows for a model."""
        return [gr.Textbox(**_text(chosen))]

    def _take_apart(self, text: str, model: str) -> dict[str, Any]:
        try:
            return self._lessons.pieces(text, model)
        except HubNMTError as error:
            return {"message": sentence(str(error))}

    def _draw(self, text: str, model: str, translated: dict[str, Any] | None) -> tuple[Any, ...]:
        """Draw every part; what is wrong with the model itself is said once, and then nothing."""
        pieces = self._take_apart(text, model)
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
        nothing = '<p class="hint">Translate a sentence in the first tab, then come back.</p>'
        return results.diagram(found) if found else nothing

    def _run_of(self, model: str) -> str:
        try:
            found = self._lessons.run_of(model)
        except HubNMTError as error:
            return error_notice(error)
        nothing = '<p class="hint">This model came without the record of its training.</p>'
        return results.run(found) if found else nothing

    def _show_run(self, folder: str) -> str:
        try:
            return results.run(self._lessons.run_at(folder))
        except HubNMTError as error:
            return error_notice(error)


def _text(chosen: Chosen) -> dict[str, Any]:
    first = next(iter(examples(chosen.facts.src_lang, chosen.facts.measured_on)), "")
    return source_texts(chosen) | {"value": first, "placeholder": "Type, and watch"}
