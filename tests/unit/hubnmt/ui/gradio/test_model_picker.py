"""A picker of models, by itself."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from hubnmt.ui.gradio.events import line
from hubnmt.ui.gradio.model_picker import ModelPicker
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.hub_server import HubServer

Make = Callable[..., ModelRegistry]


def _place(registry: ModelRegistry) -> tuple[ModelPicker, dict[Any, Any]]:
    """A picker called `side`, and its events by what sets them off and where they stand in line."""
    handlers = Handlers(registry)
    with gr.Blocks(analytics_enabled=False) as demo:
        notice, shown = line(), gr.Textbox(label="Shown")
        picker = ModelPicker(handlers, handlers.choose(""), label="Model S", name="side")
        picker.place_search()
        picker.wire(notice, [shown], lambda chosen: [chosen.facts.name.upper()])
    events = {(f.targets[0][1], f.concurrency_id): f for f in demo.fns.values()}
    return picker, events


def test_words_are_searched_for_only_where_the_hub_may_be_asked(make_registry: Make):
    for allowed in (False, True):
        _, events = _place(make_registry(allow_hub=allowed))
        assert (("change", "hub") in events) == allowed
        assert any(trigger == "focus" for trigger, _ in events) == allowed
        notice, *rest = events["change", "opening"].fn("some words", "first")
        assert rest == [gr.skip()] * 2
        assert (notice == gr.skip()) == allowed


def test_no_model_is_suggested_before_somebody_looks(make_registry: Make, hub: HubServer):
    picker, _ = _place(make_registry(allow_hub=True))
    assert [name for _, name in picker.field.choices] == ["first", "second"]
    assert hub.requests == []
