"""The Compare tab: two models or decoding configurations side by side."""

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
from hubnmt.ui.gradio.model_picker import ModelPicker
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.gradio.translate_tab import source_texts
from hubnmt.ui.html import results
from hubnmt.ui.services.decoding_controls import BEST, read_options
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry
from hubnmt.ui.services.translate import compare

LEAD = (
    "Translate the same text with two models or two decoding configurations. Differing words are "
    "highlighted."
)

FILL = """(source, text) => {
  const field = document.querySelector("#compare-source");
  if (text && text !== field.dataset.filled) return text;
  field.dataset.filled = source;
  return source;
}"""
"""Takes the text over unless another one was typed here."""


class CompareTab:
    """Components and events of the tab."""

    def __init__(self, registry: ModelRegistry, chosen: ModelFacts) -> None:
        """Create the components for a model."""
        self._registry = registry
        heading("Compare translations", LEAD)
        self._notice = line()
        self._source = gr.Textbox(
            **source_texts(chosen), lines=1, max_lines=14, elem_id="compare-source"
        )
        with gr.Row(elem_id="compare-sides"):
            self._picker, self._panel = self._place_side("A", chosen, BEST)
            self._other_picker, self._other_panel = self._place_side("B", chosen, "Fast")
        self._go = gr.Button("Compare", variant="primary", elem_id="compare-go")
        self._compared = draw_static("compared")
        self._result = line(elem_id="comparison")

    def _place_side(
        self, side: str, chosen: ModelFacts, preset: str
    ) -> tuple[ModelPicker, OptionsPanel]:
        name = side.lower()
        with gr.Column(min_width=300):
            picker = ModelPicker(
                self._registry, chosen, label=f"Model {side}", name=f"model-{name}"
            )
            panel = OptionsPanel(chosen.decoding, name=f"options-{name}", preset=preset, title=side)
        return picker, panel

    def wire(self, tab: gr.Tab, source: gr.Textbox) -> None:
        """Connect the events; the text begins as that of the Translate tab."""
        tab.select(None, [source, self._source], self._source, js=FILL, **QUIET)
        sides = (self._picker, self._panel), (self._other_picker, self._other_panel)
        inputs: list[Any] = [self._source]
        for picker, panel in sides:
            inputs += [picker.field, *panel.components]
            panel.wire(self._registry, picker.field)
        self._picker.wire(self._notice, self._describe_side)
        self._other_picker.wire(self._notice, self._other_panel.describe)
        gr.on(
            [self._go.click, self._source.submit],
            as_client(self._compare),
            inputs,
            [self._notice, self._result, self._compared],
            show_progress_on=self._result,
            **(RUNS | {"show_progress": "minimal"}),
        )

    @property
    def second(self) -> gr.Dropdown:
        """Field of the second model."""
        return self._other_picker.field

    def describe(self, chosen: ModelFacts) -> dict[Any, Any]:
        """Return the components that depend on the page's model, which becomes A."""
        return self._picker.describe(chosen) | self._describe_side(chosen)

    def _describe_side(self, chosen: ModelFacts) -> dict[Any, Any]:
        return {self._source: gr.update(**source_texts(chosen)), **self._panel.describe(chosen)}

    def _compare(self, text: str, *values: Any) -> tuple[str, str, dict[str, str] | None]:
        """Compare; `values` are the model and the options of A, then those of B."""
        half = len(values) // 2
        sides = values[:half], values[half:]
        models = [model for model, *_ in sides]
        options = [read_options(controls) for _, *controls in sides]
        try:
            found = compare(self._registry, text, models, options)
        except HubNMTError as error:
            return error_notice(error), "", None
        return "", results.comparison(found), {"text": text}
