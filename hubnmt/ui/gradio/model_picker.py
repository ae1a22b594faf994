"""Model picker: a dropdown that accepts model references and suggests models of the Hub."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import OPENS, QUIET, as_client, error_notice
from hubnmt.ui.services.registry import (
    MAX_MODEL_MB,
    ModelFacts,
    ModelRegistry,
    suggest_models,
)

HUB = f"user/name on the Hub (up to {MAX_MODEL_MB} MB)"


class ModelPicker:
    """A dropdown of models that also accepts references, if those are allowed."""

    def __init__(
        self,
        registry: ModelRegistry,
        chosen: ModelFacts,
        *,
        label: str = "Model",
        name: str = "model",
    ) -> None:
        """Create the components; `name` is a unique element id."""
        also = ["a folder"] * registry.allow_local + [HUB] * registry.allow_hub
        self._registry = registry
        self._chosen = chosen
        self.field = gr.Dropdown(
            choices=list(registry.names),
            value=chosen.name,
            label=label,
            info=f"Or type {' or '.join(also)}." if also else None,
            allow_custom_value=bool(also),
            elem_id=name,
            elem_classes="picker",
            min_width=220,
        )
        # In the browser, not in a `State`: pages stay open across server restarts.
        self._opened = gr.Textbox(chosen.name, visible=False)

    def describe(self, chosen: ModelFacts) -> dict[Any, Any]:
        """Return the components with their values for a model opened by another picker."""
        return {self.field: chosen.name, self._opened: chosen.name}

    def wire(self, notice: gr.HTML, describe: Callable[[ModelFacts], dict[Any, Any]]) -> None:
        """Connect the events: load the selected model and update what depends on it."""
        if self._registry.allow_hub:
            self.field.focus(self._suggest, None, self.field, queue=False, **QUIET)

        def choose(
            model: str,
            opened: str,
            download: gr.Progress = gr.Progress(track_tqdm=True),  # noqa: B008  # required by Gradio
        ) -> dict[Any, Any]:
            if model == opened:
                return {notice: ""}
            try:
                chosen = self._registry.open(model)
            except HubNMTError as error:
                return {notice: error_notice(error)}
            return {notice: "", self._opened: chosen.name, **describe(chosen)}

        self.field.change(  # by the user, a link, or swapping
            as_client(choose),
            [self.field, self._opened],
            [notice, self._opened, *describe(self._chosen)],
            show_progress_on=self.field,
            **(OPENS | QUIET | {"show_progress": "full"}),
        )

    def _suggest(self) -> gr.Dropdown:
        return gr.Dropdown(choices=suggest_models(self._registry))
