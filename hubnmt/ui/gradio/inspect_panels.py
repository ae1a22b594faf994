"""Tabs below a translation: alternatives, steering row, attention explorer and head switches."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from hubnmt.ui.gradio.events import QUIET, RUNS, draw_static, on_model
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.inspection import Inspector

SELECTED = "(value) => value.candidates[value.selected].text"
"""The text of the selected candidate."""


class InspectPanels:
    """The alternatives, which hold the page's translation state, and three panels about it."""

    def __init__(self, inspector: Inspector) -> None:
        """Create the tabs; the style sheet hides them until there is a translation."""
        self._inspector = inspector
        self._sentences = draw_static("sentences", "sentences")
        with gr.Tabs(elem_id="inside"):
            with gr.Tab("Alternatives", id="alternatives"):
                self.alternatives = draw_static("alternatives")
            with gr.Tab("Steer", id="steer") as steer:
                self._steering = draw_static("steering", "steering")
            with gr.Tab("Look inside", id="look") as look_inside:
                self._explorer = draw_static("explorer", "explorer")
            with gr.Tab("Heads", id="heads") as heads:
                self._switches = draw_static("switches", "switches")
        self._explored = (steer, look_inside, heads)

    @property
    def state(self) -> list[gr.HTML]:
        """Components that hold the translation state."""
        return [self.alternatives, self._sentences]

    @property
    def components(self) -> list[gr.HTML]:
        """Components with the results of `explore`."""
        return [self._explorer, self._steering, self._switches]

    def explore_on(self, event: Any) -> Any:
        """Update the panels on an event."""
        return event(
            on_model(self._inspector.explore),
            self.alternatives,
            self.components,
            trigger_mode="always_last",
            **RUNS,
        )

    def wire(self, target: gr.Textbox, options: OptionsPanel, look: Callable[..., Any]) -> Any:
        """Connect the events, and return the one that steers.

        Args:
            target: the translation's text field.
            options: decoding options for completing a steered sentence.
            look: connects an event after which the panels may be outdated; `is_new` says they are.
        """
        value = self.alternatives
        for tab in self._explored:
            look(tab.select, is_new=False)
        selected = value.select(None, value, target, js=SELECTED, **QUIET)
        look(selected.then, is_new=True)
        moved = self._sentences.select(
            None,
            [value, self._sentences],
            value,
            js="(value, { sentence }) => ({ ...value, sentence })",
            **QUIET,
        )
        look(moved.then, is_new=True)
        each = RUNS | {"trigger_mode": "multiple"}  # the panels ignore outdated answers
        self._steering.select(
            on_model(self._inspector.ask), [value, self._steering], self._steering, **each
        )
        steered = self._steering.submit(
            on_model(self._steer),
            [value, self._steering, *options.components],
            [target, value, *self.components],
            **RUNS,
        )
        self._switches.select(
            on_model(self._inspector.switch), [value, self._switches], self._switches, **each
        )
        return steered

    def _steer(self, value: Any, steering: Any, *options: Any) -> tuple[Any, ...]:
        overrides = decoding_controls.read_options(options)
        overrides.pop("prefix", None)  # of the whole text
        steered = self._inspector.steer(value, steering, **overrides)
        return tuple(gr.skip() if part is None else part for part in steered)
