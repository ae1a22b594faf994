"""What stands below the picker when words are typed into it."""

from collections.abc import Callable
from typing import Any

import gradio as gr
import pytest

from hubnmt.ui.gradio.events import ASKS
from hubnmt.ui.gradio.model_picker import HubSearch
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.hub_server import Fault, HubServer

CARD = b"---\nlanguage: [fr, en]\ntags: [hubnmt]\n---\n"
NAME = "user/found"
LABEL = f"{NAME} (fr to en)"


@pytest.fixture
def events(hub: HubServer, make_registry: Callable[..., ModelRegistry]) -> dict[str, Any]:
    """The events beside a Hub with one model, by what sets them off."""
    hub.store.put(NAME, {"README.md": CARD})
    with gr.Blocks(analytics_enabled=False) as demo:
        picker, opened = gr.Dropdown(label="Model"), gr.Textbox("first", visible=False)
        search = HubSearch(Handlers(make_registry(allow_hub=True)))
        search.wire(picker, opened)
    return {event.targets[0][1]: event for event in demo.fns.values()}


def test_words_give_way_to_the_open_model_and_what_is_found(events: dict[str, Any]):
    asking, found = events["change"].fn("<b>found", "first"), events["change"].fn("found", "first")
    picker, said, choices = next(asking)
    assert picker == "first"
    assert "Searching the Hub for “&lt;b&gt;found”" in said
    assert choices.visible is False
    *_, (picker, said, choices) = found
    assert picker == gr.skip()
    assert "“found”" in said
    assert (choices.visible, choices.sample_labels) == (True, [LABEL])
    assert choices.raw_samples == [[NAME]]


def test_nothing_found_and_trouble_are_sentences(events: dict[str, Any], hub: HubServer):
    *_, (_, said, choices) = events["change"].fn("nowhere", "first")
    assert "No hubnmt model on the Hub" in said
    assert choices.visible is False
    hub.faults.add(Fault(".", times=None, status=503))
    *_, (picker, said, choices) = events["change"].fn("elsewhere", "first")
    assert 'role="alert"' in said
    assert "503" in said
    assert (picker, choices.visible) == (gr.skip(), False)


@pytest.mark.parametrize("typed", ["first", "second", "user/name", "", None])
def test_a_model_asks_nobody_and_changes_nothing(
    events: dict[str, Any], hub: HubServer, typed: str
):
    assert list(events["change"].fn(typed, "first")) == [(gr.skip(),) * 3]
    assert hub.requests == []


def test_choosing_sets_the_picker_and_clears_the_place(events: dict[str, Any]):
    picker, said, choices = events["click"].fn([NAME])
    assert (picker, said, choices.visible) == (NAME, "", False)
    said, choices = events["select"].fn()
    assert (said, choices.visible) == ("", False)


def test_the_hub_is_asked_one_thing_at_a_time_beside_the_models(events: dict[str, Any]):
    searching = events["change"]
    assert (searching.concurrency_id, searching.concurrency_limit) == ("hub", 1)
    assert searching.queue is not False
    assert ASKS["concurrency_id"] == "hub"
