"""Model picker: a dropdown that accepts model references and Hub searches."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import ASKS, OPENS, QUIET, as_client, error_notice, line
from hubnmt.ui.html import results
from hubnmt.ui.services.catalogue import N_SUGGESTED, search_models, suggest_models
from hubnmt.ui.services.registry import MAX_MODEL_MB
from hubnmt.ui.services.translate import Handlers, SelectedModel

HUB = f"user/name on the Hub (up to {MAX_MODEL_MB} MB)"


class ModelPicker:
    """A dropdown of models, and the results of a Hub search below it, if those are allowed."""

    def __init__(
        self,
        handlers: Handlers,
        chosen: SelectedModel,
        *,
        label: str = "Model",
        name: str = "model",
    ) -> None:
        """Create the components; `name` is a unique element id."""
        registry = handlers.registry
        self._handlers = handlers
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
        if registry.allow_hub:
            self._status = line(elem_id=f"{name}-said")
            self._found = gr.Dataset(
                components=[gr.Textbox(visible=False)],
                samples=[],
                label="Found on the Hub",
                elem_id=f"{name}-found",
                elem_classes="found",
                visible=False,
            )

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
        if self._handlers.registry.allow_hub:
            self._wire_search()
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

    def _wire_search(self) -> None:
        self.field.change(
            self._search,
            [self.field, self._opened],
            [self.field, self._status, self._found],
            **(QUIET | ASKS),
        )
        both, at_once = [self._status, self._found], QUIET | {"queue": False}
        self._found.click(
            lambda row: (row[0], *_no_results()), self._found, [self.field, *both], **at_once
        )
        self.field.select(_no_results, None, both, **at_once)
        self.field.focus(self._suggest, None, self.field, **at_once)

    def _suggest(self) -> gr.Dropdown:
        return gr.Dropdown(choices=suggest_models(self._handlers.registry))

    def _search(self, typed: str, opened: str) -> Iterator[tuple[Any, ...]]:
        """Search the Hub, and reset the field to the open model."""
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


def _no_results() -> tuple[str, gr.Dataset]:
    return "", _choices([])


def _choices(found: list[tuple[str, str]]) -> gr.Dataset:
    return gr.Dataset(
        samples=[[name] for _, name in found],
        sample_labels=[label for label, _ in found],
        visible=bool(found),
    )


def _info(allow_local: bool, allow_hub: bool) -> str | None:
    also = ["a folder"] * allow_local + [HUB, "search terms"] * allow_hub
    *first, last = also or [""]
    return f"Or type {', '.join(first)}{' or ' * bool(first)}{last}." if also else None
