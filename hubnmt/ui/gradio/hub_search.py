"""What was typed into the picker and names no model: the Hub is searched for it.

Takes `Handlers` and the picker, gives a sentence and the models found, to choose from. Must not
know what the Hub is.

Gradio's dropdown (6.31) loses what is being typed if its choices change meanwhile, so the search
begins when the visitor has typed: with Enter, or on leaving the field.
"""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import ASKS, QUIET, error_notice, line
from hubnmt.ui.html import results
from hubnmt.ui.services.catalogue import N_SUGGESTED
from hubnmt.ui.services.translate import Handlers


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
