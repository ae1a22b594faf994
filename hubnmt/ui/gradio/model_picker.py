"""A picker of models as it stands in the page: a list, room to type, and a search of the Hub.

Takes `Handlers` and the model to begin with, gives components, and tells when another model is
open. Must not know what the page shows of a model.
"""

from collections.abc import Callable
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import OPENS, QUIET, as_client, error_notice
from hubnmt.ui.gradio.hub_search import HubSearch
from hubnmt.ui.services.fetching import MAX_MODEL_MB
from hubnmt.ui.services.translate import Chosen, Handlers

HUB = f"user/name on the Hub (up to {MAX_MODEL_MB} MB)"


class ModelPicker:
    """One picker; every model that the page opens can be chosen or typed into it."""

    def __init__(
        self, handlers: Handlers, chosen: Chosen, *, label: str = "Model", name: str = "model"
    ) -> None:
        """Place the list, set to a model.

        Args:
            handlers: of the page.
            chosen: the model to begin with.
            label: what the visitor calls the picker.
            name: what the page calls it; no two share one.
        """
        registry = handlers.registry
        self._handlers = handlers
        self._name = name
        self._search: HubSearch | None = None
        self.field = gr.Dropdown(
            choices=list(registry.names),
            value=chosen.facts.name,
            label=label,
            info=_info(registry.allow_local, registry.allow_hub),
            allow_custom_value=registry.allow_local or registry.allow_hub,
            elem_id=name,
            elem_classes="picker",
            min_width=220,
        )
        # In the browser, not in a `State`: a page outlives the server it came from.
        self._opened = gr.Textbox(chosen.facts.name, visible=False)

    def place_search(self) -> None:
        """Make room for what a search finds, on a page that may ask the Hub."""
        if self._handlers.registry.allow_hub:
            self._search = HubSearch(self._handlers, self._name)

    @property
    def described(self) -> list[Any]:
        """The components that another picker may set; `describe` gives their values."""
        return [self.field, self._opened]

    def describe(self, chosen: Chosen) -> list[Any]:
        """Say what the picker shows when a model was opened elsewhere."""
        return [chosen.facts.name] * 2

    def wire(
        self, notice: gr.HTML, described: list[Any], describe: Callable[[Chosen], list[Any]]
    ) -> None:
        """Open what is picked, and say so to the page.

        Args:
            notice: where a refusal is said.
            described: the components that change with the model.
            describe: what they show for one.
        """
        if self._search is not None:
            self._search.wire(self.field, self._opened)
            self.field.focus(
                lambda: gr.Dropdown(choices=self._handlers.suggest()),
                None,
                self.field,
                queue=False,
                **QUIET,
            )
        changed = [self._opened, *described]
        unchanged = (gr.skip(),) * len(changed)

        def choose(
            model: str,
            opened: str,
            download: gr.Progress = gr.Progress(track_tqdm=True),  # noqa: B008  # Gradio's way
        ) -> tuple[Any, ...]:
            if self._handlers.read_search(model):  # words leave the page to the open model
                return gr.skip(), *unchanged
            if model == opened:
                return "", *unchanged
            try:
                chosen = self._handlers.choose(model)
            except HubNMTError as error:
                return error_notice(error), *unchanged
            return "", chosen.facts.name, *describe(chosen)

        self.field.change(  # by hand, by a link, or because the languages are swapped
            as_client(choose),
            [self.field, self._opened],
            [notice, *changed],
            show_progress_on=self.field,
            **(OPENS | QUIET | {"show_progress": "full"}),
        )


def _info(allow_local: bool, allow_hub: bool) -> str | None:
    also = ["a folder"] * allow_local + [HUB, "words to search it"] * allow_hub
    *first, last = also or [""]
    return f"Or type {', '.join(first)}{' or ' * bool(first)}{last}." if also else None
