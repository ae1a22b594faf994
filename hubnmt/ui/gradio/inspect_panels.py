"""Inspection panels of the Translate tab: steering row, attention explorer and head switches."""

from typing import Any

import gradio as gr

from hubnmt.ui.gradio.events import RUNS, draw_static, on_model
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.look import Look


class InspectPanels:
    """Three panels that operate on the page's translation state."""

    def __init__(self, look: Look) -> None:
        """Create the panels, hidden until there is a translation."""
        self._look = look
        self._steering = draw_static("steering", "steering")
        self._explorer = draw_static("explorer", "explorer")
        self._switches = draw_static("switches", "switches")

    @property
    def components(self) -> list[gr.HTML]:
        """Components updated with every translation."""
        return [self._explorer, self._steering, self._switches]

    def explore_on(self, event: Any, answer: gr.HTML) -> Any:
        """Update the panels on an event of the component that holds the answer."""
        return event(
            on_model(self._look.explore),
            answer,
            self.components,
            js="(answer) => answer.shown.at(-1)",
            trigger_mode="always_last",
            **RUNS,
        )

    def wire(self, value: gr.HTML, target: gr.Textbox, options: OptionsPanel) -> None:
        """Connect the events.

        Args:
            value: the alternatives, which hold the translation state.
            target: the translation's text field.
            options: decoding options for completing a steered sentence.
        """
        value.select(on_model(self._show), value, [target, *self.components], **RUNS)
        each = RUNS | {"trigger_mode": "multiple"}  # the panels ignore outdated answers
        self._steering.select(
            on_model(self._look.ask), [value, self._steering], self._steering, **each
        )
        self._steering.submit(
            on_model(self._steer),
            [value, self._steering, *options.components],
            [target, value, *self.components],
            **RUNS,
        )
        self._switches.select(
            on_model(self._look.switch), [value, self._switches], self._switches, **each
        )

    def _show(self, value: Any) -> tuple[Any, ...]:
        text, seen = self._look.show(value)
        return text, *seen

    def _steer(self, value: Any, steering: Any, *options: Any) -> tuple[Any, ...]:
        steered = self._look.steer(value, steering, **decoding_controls.read_steered(options))
        return tuple(gr.skip() if part is None else part for part in steered)
