"""A picker of models, by itself."""

from collections.abc import Callable
from typing import Any

import gradio as gr
import pytest

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


def test_another_model_is_opened_and_told_once(make_registry: Make):
    registry = make_registry()
    _, events = _place(registry)
    choose = events["change", "opening"]
    assert choose.fn("second", "first") == ("", "second", "SECOND")
    assert registry.is_open("second")
    assert choose.fn("second", "second") == ("", gr.skip(), gr.skip())
    assert len(choose.outputs) == 3


def test_a_refusal_is_said_and_changes_nothing(make_registry: Make):
    _, events = _place(make_registry())
    notice, *rest = events["change", "opening"].fn("no/such", "first")
    assert "is not available on this page" in notice
    assert rest == [gr.skip()] * 2


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


def test_another_picker_may_set_it(make_registry: Make):
    picker, _ = _place(make_registry())
    chosen = picker._handlers.choose("second")
    assert picker.describe(chosen) == ["second", "second"]
    assert picker.described[0] is picker.field
    assert (picker.field.elem_id, picker.field.label) == ("side", "Model S")


@pytest.mark.parametrize(
    ("options", "info"),
    [
        ({}, None),
        ({"allow_local": True}, "Or type a folder."),
        ({"allow_hub": True}, "Or type user/name on the Hub (up to 500 MB) or search terms."),
        (
            {"allow_local": True, "allow_hub": True},
            "Or type a folder, user/name on the Hub (up to 500 MB) or search terms.",
        ),
    ],
)
def test_it_says_what_can_be_typed(make_registry: Make, options: dict[str, bool], info: str | None):
    picker, _ = _place(make_registry(**options))
    assert picker.field.info == info
    assert picker.field.allow_custom_value == bool(options)
