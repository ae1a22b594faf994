"""A picker of models as it stands in the page: a list, room to type, and a search of the Hub.

Takes `Handlers` and the model to begin with, gives components, and tells when another model is
open. Must not know what the page shows of a model.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import ASKS, OPENS, QUIET, as_client, error_notice, line
from hubnmt.ui.html import results
from hubnmt.ui.services.catalogue import N_SUGGESTED
from hubnmt.ui.services.registry import MAX_MODEL_MB
from hubnmt.ui.services.translate import Chosen, Handlers


class HubSearch:
    """The place below the picker; empty until something is searched for."""

    def __init__(self, handlers: Handlers, picker: str = "model") -> None:
        """Place the components; `picker` is what the page calls the list they belong to."""
        self._handlers = handlers
        self._said = line(elem_id=f"{picker}-said")
        self._found = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            samples=[],
            label="Found on the Hub",
            elem_id=f"{picker}-found",
            elem_classes="found",
            visible=False,
        )

    def wire(self, model: gr.Dropdown, opened: gr.Textbox) -> None:
        """Search for what the picker says.

        Args:
            model: the picker; words give way to the model that is open.
            opened: the name of that.
        """
        model.change(
            self._search,
            [model, opened],
            [model, self._said, self._found],
            **(QUIET | ASKS),
        )
        both = [self._said, self._found]
        self._found.click(
            lambda row: (row[0], *_nothing()), self._found, [model, *both], queue=False, **QUIET
        )
        model.select(_nothing, None, both, queue=False, **QUIET)  # what was found is not wanted

    def _search(self, typed: str, opened: str) -> Iterator[tuple[Any, ...]]:
        search = self._handlers.read_search(typed)
        if search is None:
            yield (gr.skip(),) * 3
            return
        yield opened, results.searched(search.typed, None, at_most=N_SUGGESTED), _choices([])
        try:
            found = self._handlers.search(search)
        except HubNMTError as error:
            yield gr.skip(), error_notice(error), _choices([])
            return
        said = results.searched(search.typed, len(found), at_most=N_SUGGESTED)
        yield gr.skip(), said, _choices(found)


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
