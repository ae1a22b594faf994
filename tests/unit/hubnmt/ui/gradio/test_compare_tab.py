from collections.abc import Callable

import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.compare_tab import CompareTab
from hubnmt.ui.services.decoding_controls import control_values
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def tab(handlers: Handlers) -> CompareTab:
    with gr.Blocks(analytics_enabled=False) as demo:
        tab = CompareTab(handlers, handlers.choose(""))
        tab.wire()
    tab.demo = demo  # type: ignore[attr-defined]
    return tab


def _values(tab: CompareTab) -> list[object]:
    """What the two panels say when nobody touched them."""
    return [
        each.value for side in tab._sides for each in (side.picker.field, *side.panel.components)
    ]


def test_at_first_the_best_search_meets_the_fast_one(tab: CompareTab):
    sizes = [side.panel.components[0].value for side in tab._sides]
    assert sizes == [4, 1]


def test_pressing_compares_and_refuses_in_the_page(tab: CompareTab):
    (event,) = [f for f in tab.demo.fns.values() if len(f.inputs) > 20]
    notice, page = event.fn("ein hund", *_values(tab))
    assert notice == ""
    assert "EIN HUND" in page
    notice, page = event.fn("", *_values(tab))
    assert "nothing to translate" in notice
    assert page == ""


def test_choosing_a_model_takes_its_defaults_and_a_its_language(tab: CompareTab):
    events = [
        f for f in tab.demo.fns.values() if f.targets[0][1] == "change" and len(f.inputs) == 2
    ]
    assert [f.inputs[0].label for f in events] == ["Model A", "Model B"]
    wanted = [*control_values(DecodingConfig(beam_size=4)).values(), "Best"]
    for event in events:
        notice, opened, *values = event.fn("second", "first")
        assert (notice, opened) == ("", "second")
        assert values[-len(wanted) :] == wanted
        assert len(event.outputs) == 2 + len(values)
        notice, *_ = event.fn("no/such", "first")
        assert "is not available on this page" in notice
    texts, *rest = events[0].fn("second", "first")[2:]
    assert texts.label == "German"
    assert len(rest) == len(wanted)


def test_the_picked_model_becomes_a(tab: CompareTab, handlers: Handlers):
    values = tab.describe(handlers.choose("second"))
    assert len(values) == len(tab.described)
    assert values[:2] == ["second", "second"]
    assert tab.described[0].label == "Model A"


def test_both_pickers_search_the_hub_where_the_page_may_ask_it(
    make_registry: Callable[..., ModelRegistry],
):
    for allowed in (False, True):
        handlers = Handlers(make_registry(allow_hub=allowed))
        with gr.Blocks(analytics_enabled=False) as demo:
            CompareTab(handlers, handlers.choose("")).wire()
        searches = [f for f in demo.fns.values() if f.concurrency_id == "hub"]
        assert [f.inputs[0].elem_id for f in searches] == ["model-a", "model-b"] * allowed
