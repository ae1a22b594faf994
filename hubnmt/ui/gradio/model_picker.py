"""Model picker: a dropdown that accepts model references and Hub searches."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import ASKS, OPENS, QUIET, as_client, error_notice, line
from hubnmt.ui.html import results
from hubnmt.ui.services.registry import (
    MAX_MODEL_MB,
    N_SUGGESTED,
    search_models,
    suggest_models,
)
from hubnmt.ui.services.translate import Handlers, SelectedModel


class HubSearch:
    """Results of a Hub search, shown below the picker."""

    def __init__(self, handlers: Handlers, picker: str = "model") -> None:
        """Create the components; `picker` is the element id of the picker."""
        self._handlers = handlers
        self._status = line(elem_id=f"{picker}-said")
        self._found = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            samples=[],
            label="Found on the Hub",
            elem_id=f"{picker}-found",
            elem_classes="found",
            visible=False,
        )

    def wire(self, model: gr.Dropdown, opened: gr.Textbox) -> None:
        """Connect the events.

        Args:
            model: the picker; after a search it is reset to the open model.
            opened: name of the open model.
        """
        model.change(
            self._search,
            [model, opened],
            [model, self._status, self._found],
            **(QUIET | ASKS),
        )
        both = [self._status, self._found]
        self._found.click(
            lambda row: (row[0], *_nothing()), self._found, [model, *both], queue=False, **QUIET
        )
        model.select(_nothing, None, both, queue=False, **QUIET)  # discard the results

    def _search(self, typed: str, opened: str) -> Iterator[tuple[Any, ...]]:
        search = self._handlers.registry.read_search(typed)
        if search is None:
            yield (gr.skip(),) * 3
            return
        yield opened, results.searched(typed, None, at_most=N_SUGGESTED), _choices([])
        try:
            found = search_models(*search)
        except HubNMTError as error:
            yield gr.skip(), error_notice(error), _choices([])
            return
        status = results.searched(typed, len(found), at_most=N_SUGGESTED)
        yield gr.skip(), status, _choices(found)


def _nothing() -> tuple[Any, ...]:
    return "", _choices([])


def _choices(found: list[tuple[str, str]]) -> gr.Dataset:
    return gr.Dataset(
        samples=[[name] for _, name in found],
        sample_labels=[label for label, _ in found],
        visible=bool(found),
    )


HUB = f"user/name on the Hub (up to {MAX_MODEL_MB} MB)"


class ModelPicker:
    """A dropdown of models that also accepts references and search terms."""

    def __init__(
        self,
        handlers: Handlers,
        chosen: SelectedModel,
        *,
        label: str = "Model",
        name: str = "model",
    ) -> None:
        """Create the dropdown.

        Args:
            handlers: the page's handlers.
            chosen: the initial model.
            label: visible label.
            name: unique element id.
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
        # In the browser, not in a `State`: pages stay open across server restarts.
        self._opened = gr.Textbox(chosen.facts.name, visible=False)

    def place_search(self) -> None:
        """Create the search results, if Hub models are allowed."""
        if self._handlers.registry.allow_hub:
            self._search = HubSearch(self._handlers, self._name)

    @property
    def described(self) -> list[Any]:
        """Components that another picker may set; `describe` returns their values."""
        return [self.field, self._opened]

    def describe(self, chosen: SelectedModel) -> list[Any]:
        """Return the components' values for a model opened elsewhere."""
        return [chosen.facts.name] * 2

    def wire(
        self, notice: gr.HTML, described: list[Any], describe: Callable[[SelectedModel], list[Any]]
    ) -> None:
        """Connect the events: load the selected model and update the page.

        Args:
            notice: where errors are shown.
            described: components that depend on the model.
            describe: model -> values of `described`.
        """
        if self._search is not None:
            self._search.wire(self.field, self._opened)
            self.field.focus(
                lambda: gr.Dropdown(choices=suggest_models(self._handlers.registry)),
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
            download: gr.Progress = gr.Progress(track_tqdm=True),  # noqa: B008  # required by Gradio
        ) -> tuple[Any, ...]:
            if self._handlers.registry.read_search(model):  # a search keeps the open model
                return gr.skip(), *unchanged
            if model == opened:
                return "", *unchanged
            try:
                chosen = self._handlers.choose(model)
            except HubNMTError as error:
                return error_notice(error), *unchanged
            return "", chosen.facts.name, *describe(chosen)

        self.field.change(  # by the user, a link, or swapping
            as_client(choose),
            [self.field, self._opened],
            [notice, *changed],
            show_progress_on=self.field,
            **(OPENS | QUIET | {"show_progress": "full"}),
        )


def _info(allow_local: bool, allow_hub: bool) -> str | None:
    also = ["a folder"] * allow_local + [HUB, "search terms"] * allow_hub
    *first, last = also or [""]
    return f"Or type {', '.join(first)}{' or ' * bool(first)}{last}." if also else None
