"""The tab that sets two models or two ways of decoding side by side.

Takes `Handlers`, gives components and their events. Must not know torch or how decoding works.
"""

from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui import controls, views
from hubnmt.ui.compare import compare, read_sides
from hubnmt.ui.handlers import Chosen, Handlers
from hubnmt.ui.options import OptionsPanel
from hubnmt.ui.parts import QUIET, RUNS, error_notice, heading, line, said_in_page
from hubnmt.ui.translate_tab import source_texts
from hubnmt.ui.zero_gpu import on_gpu

LEAD = (
    "The same text in two ways: two models, or one model that searches differently. Words that "
    "only one of them says are marked, and each model rates both translations."
)


class CompareTab:
    """The components of the tab, and their events."""

    def __init__(self, handlers: Handlers, chosen: Chosen) -> None:
        """Place the components, set for a model."""
        self._handlers = handlers
        heading("Compare two", LEAD)
        self._notice = line()
        self._source = gr.Textbox(
            **source_texts(chosen), lines=1, max_lines=14, elem_id="compare-source"
        )
        with gr.Row(elem_id="compare-sides"):
            self._sides = [
                self._place_side(name, chosen, preset)
                for name, preset in (("A", controls.BEST), ("B", "Fast"))
            ]
        self._go = gr.Button("Compare", variant="primary", elem_id="compare-go")
        self._result = line(elem_id="comparison")

    def _place_side(
        self, name: str, chosen: Chosen, preset: str
    ) -> tuple[gr.Dropdown, OptionsPanel]:
        registry = self._handlers.registry
        with gr.Column(min_width=300):
            model = gr.Dropdown(
                choices=list(registry.names),
                value=chosen.facts.name,
                label=f"Model {name}",
                allow_custom_value=registry.allow_local or registry.allow_hub,
                elem_id=f"model-{name.lower()}",
            )
            panel = OptionsPanel(
                chosen.decoding, name=f"options-{name.lower()}", preset=preset, title=name
            )
        return model, panel

    def wire(self) -> None:
        """Connect every component to its handler."""
        asked: list[Any] = [self._source]
        for model, panel in self._sides:
            asked += [model, *panel.components]
            panel.wire(self._handlers.defaults, model, runs=RUNS, quiet=QUIET)
            model.input(
                said_in_page(self._choose, blank=(gr.skip(),) * len(panel.described)),
                model,
                [self._notice, *panel.described],
                **RUNS,
            )
        gr.on(
            [self._go.click, self._source.submit],
            on_gpu(self._compare),
            asked,
            [self._notice, self._result],
            show_progress_on=self._result,
            **(RUNS | {"show_progress": "minimal"}),
        )

    @property
    def described(self) -> list[Any]:
        """The components that change with the picked model, which becomes A."""
        model, panel = self._sides[0]
        return [self._source, model, *panel.described]

    def describe(self, chosen: Chosen) -> list[Any]:
        """Say what the tab shows for a model."""
        _, panel = self._sides[0]
        values = panel.describe(chosen.decoding)
        return [gr.Textbox(**source_texts(chosen)), chosen.facts.name, *values]

    def _choose(self, model: str) -> tuple[Any, ...]:
        chosen = self._handlers.choose(model)
        return "", *self._sides[0][1].describe(chosen.decoding)

    def _compare(self, text: str, *sides: Any) -> tuple[str, str]:
        try:
            return "", views.comparison(compare(self._handlers, text, *read_sides(sides)))
        except HubNMTError as error:
            return error_notice(error), ""
